import { execFileSync } from 'node:child_process'
import { randomText } from '../../src/kernel/secrets.ts'
import { noteElsewhere } from './reporter.ts'
import { beginRun, endRun } from './runs.ts'

/** Prepares the template database before a run. After the run, searches its logs and databases for leaked secrets. */
export default async function setup() {
  // Builds the web pages with the same command as for production.
  execFileSync('pnpm', ['--silent', 'web'], { stdio: 'inherit' })
  await beginRun(randomText(6, 'abcdefghijklmnopqrstuvwxyz'))
  return async () => {
    const { figures, problems } = await endRun()
    process.stdout.write(`${figures}\n`)
    if (problems.length === 0) return
    noteElsewhere()
    throw new Error(problems.join('; '))
  }
}
