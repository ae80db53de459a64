import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['contract/src/**/*.test.ts', 'server/src/**/*.test.ts', 'server/test/**/*.test.ts', 'scripts/**/*.test.ts'],
    globalSetup: ['server/test/harness/setup.ts'],
    reporters: ['default', './server/test/harness/reporter.ts'],
    pool: 'forks',
    // The number of parallel test processes. `.ci/run` sets 3 on two cores unless the machine is slow, because tests often
    // wait for PostgreSQL and for timers.
    maxWorkers: Number(process.env.BURSAR_TEST_WORKERS ?? 2),
    // All test files of a process share its modules. Each module is loaded once per process instead of once per file.
    isolate: false,
    // Long timeouts, because the machine may be slow or busy. Tests that check durations do so explicitly.
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
})
