import type { Reporter, TestModule } from 'vitest/node'

/** Prints the slowest parts of a run at its end, and one plain line that scripts can read. */
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
    const slowest = modules
      .map((module) => ({ file: module.relativeModuleId, seconds: module.diagnostic().duration / 1000 }))
      .toSorted((a, b) => b.seconds - a.seconds)
    if (modules.length > 20) for (const { file, seconds } of slowest.slice(0, 25)) process.stdout.write(`${seconds.toFixed(0).padStart(5)} s  ${file}\n`)
    process.stdout.write(`\n${passed} passed, ${failed} failed\n`)
  }
}
