import { defineConfig } from 'vitest/config'

/** Configuration for tests that load the whole machine and measure durations. They run one at a time, without other tests. */
export default defineConfig({
  test: {
    include: ['server/test/faults/load/*.load.ts'],
    globalSetup: ['server/test/harness/setup.ts'],
    reporters: ['default', './server/test/harness/reporter.ts'],
    pool: 'forks',
    maxWorkers: 1,
    hookTimeout: 600_000,
  },
})
