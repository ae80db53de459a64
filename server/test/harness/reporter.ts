import { readFileSync, writeFileSync } from 'node:fs'
import type { Reporter, TestModule } from 'vitest/node'

/** The failed tests of a run, by file. `elsewhere` is true if something outside the tests failed, such as the search for leaked secrets. */
export interface Failures {
  passed: number
  failed: number
  elsewhere: boolean
  files: Record<string, { test: string; error: string }[]>
}

/** The file for these findings. Only a run that may repeat failed files asks for it. */
const path = process.env.BURSAR_TEST_FAILURES

/** Notes a failure after the last test, such as a leaked secret. The findings are written before it. */
export const noteElsewhere = (): void => {
  if (path) writeFileSync(path, JSON.stringify({ ...(JSON.parse(readFileSync(path, 'utf8')) as Failures), elsewhere: true }))
}

/** Prints the slowest parts of a run at its end, and one plain line that scripts can read. */
export default class PlainCount implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const found: Failures = { passed: 0, failed: errors.length, elsewhere: errors.length > 0, files: {} }
    for (const module of modules) {
      const failed = []
      for (const test of module.children.allTests()) {
        const result = test.result()
        if (result.state === 'passed') found.passed++
        else if (result.state === 'failed') failed.push({ test: test.fullName, error: result.errors[0]?.message.split('\n')[0] ?? '' })
      }
      if (module.state() === 'failed' && failed.length === 0) failed.push({ test: 'the file itself', error: module.errors()[0]?.message ?? '' })
      found.failed += failed.length
      if (failed.length > 0) found.files[module.relativeModuleId] = failed
    }
    const slowest = modules
      .map((module) => ({ file: module.relativeModuleId, seconds: module.diagnostic().duration / 1000 }))
      .toSorted((a, b) => b.seconds - a.seconds)
    if (modules.length > 20) for (const { file, seconds } of slowest.slice(0, 25)) process.stdout.write(`${seconds.toFixed(0).padStart(5)} s  ${file}\n`)
    process.stdout.write(`\n${found.passed} passed, ${found.failed} failed\n`)
    if (path) writeFileSync(path, JSON.stringify(found))
  }
}
