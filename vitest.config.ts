import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['contract/src/**/*.test.ts', 'server/src/**/*.test.ts', 'server/test/**/*.test.ts'],
    globalSetup: ['server/test/harness/setup.ts'],
    reporters: ['default', './server/test/harness/reporter.ts'],
    pool: 'forks',
    maxWorkers: 2,
    // Two processes for the whole run: what the files import is read twice, not a hundred times.
    isolate: false,
    // Long enough for a machine that is busy or small: nothing here is judged by how long it takes, except where it says so.
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
})
