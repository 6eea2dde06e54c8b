// The CommonJS instance for ESM users: one engine, one JailError, however it is loaded.
import codeJail from './index.js';

export const { runCode, createJail, doctor, JailError } = codeJail;
export default codeJail;
