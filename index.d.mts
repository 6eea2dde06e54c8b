export * from './index.js';

import * as codeJail from './index.js';
export default codeJail;
