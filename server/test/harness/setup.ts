import { execFileSync } from 'node:child_process'
import { randomText } from '../../src/kernel/secrets.ts'
import { beginRun, endRun } from './runs.ts'

/** Before a run: the template database. After it: the search for secrets. */
export default async function setup() {
  // The pages are built by the same command as for production.
  execFileSync('pnpm', ['--silent', 'web'], { stdio: 'inherit' })
  await beginRun(randomText(6, 'abcdefghijklmnopqrstuvwxyz'))
  return async () => {
    const { figures, problems } = await endRun()
    process.stdout.write(`${figures}\n`)
    if (problems.length > 0) throw new Error(problems.join('; '))
  }
}
