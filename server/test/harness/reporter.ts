import type { Reporter, TestModule } from 'vitest/node'

/** Ends a run with one plain line that any script can read. */
export default class PlainCount implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    let passed = 0
    let failed = errors.length
    for (const module of modules) {
      if (module.state() === 'failed' && [...module.children.allTests()].every((test) => test.result().state !== 'failed')) failed++
      for (const test of module.children.allTests()) {
        if (test.result().state === 'passed') passed++
        else if (test.result().state === 'failed') failed++
      }
    }
    process.stdout.write(`\n${passed} passed, ${failed} failed\n`)
  }
}
