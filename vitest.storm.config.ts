import { defineConfig } from 'vitest/config'

/** Tests that load the whole machine, and judge how long things take: each alone, beside nothing else. */
export default defineConfig({
  test: {
    include: ['server/test/storms/*.storm.ts'],
    globalSetup: ['server/test/harness/setup.ts'],
    reporters: ['default', './server/test/harness/reporter.ts'],
    pool: 'forks',
    maxWorkers: 1,
    hookTimeout: 600_000,
  },
})
