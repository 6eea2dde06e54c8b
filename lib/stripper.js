'use strict';
// What erases types in a cell whose Node.js cannot do it itself.

const module_ = require('node:module');

/**
 * The path of the package's one file; null where it is not needed, or not to be
 * had: the cell then says so. A file within an archive (Yarn PnP) cannot be shown to a cell.
 * @param {{ node: { path?: string } }} config
 * @returns {string | null}
 */
function stripperFor({ node }) {
  if (node.path === undefined && 'stripTypeScriptTypes' in module_) return null;
  try {
    const file = require.resolve('@swc/wasm-typescript');
    return file.includes('.zip/') ? null : file;
  } catch {
    return null;
  }
}

module.exports = { stripperFor };
