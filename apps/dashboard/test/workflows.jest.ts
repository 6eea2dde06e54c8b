import { afterEach, describe, it, jest } from '@jest/globals';
import { CASES, reset } from './cases';

jest.setTimeout(60000);
afterEach(reset);

describe('workflows', () => {
  for (const [name, run] of Object.entries(CASES)) it(name, run);
});
