import nextJest from 'next/jest.js';

const createConfig = nextJest({ dir: import.meta.dirname });

export default createConfig({
  testEnvironment: 'node',
  testMatch: ['<rootDir>/test/*.jest.ts'],
  moduleNameMapper: { '^@/(.*)$': '<rootDir>/src/$1' },
  // The native addon's package is loaded as it is.
  transformIgnorePatterns: ['/node_modules/'],
  modulePathIgnorePatterns: ['<rootDir>/.next/'],
});
