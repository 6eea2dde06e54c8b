// The CommonJS instance for ESM users: one engine, one JailError, however it is loaded.
import codeJail from './index.js';

export const { runCode, checkCode, createJail, doctor, JailError } = codeJail;
export default codeJail;
