import { afterEach, describe, it } from 'vitest';
import { CASES, reset } from './cases';

afterEach(reset);

describe('workflows', () => {
  for (const [name, run] of Object.entries(CASES)) it(name, run);
});
