import { mkdirSync, rmSync } from 'node:fs'
import { randomText } from '../../src/kernel/secrets.ts'
import { dropLeftovers, prepareTemplate } from './database.ts'
import { scanLogs } from './secrets.ts'

/** Before a run: the template database. After it: every secret that was issued is searched for in everything that was logged. */
export default async function setup() {
  const run = randomText(6, 'abcdefghijklmnopqrstuvwxyz')
  process.env.BURSAR_TEST_RUN = run
  process.env.BURSAR_TEST_SCRATCH = `${process.cwd()}/.scratch/${run}`
  mkdirSync(process.env.BURSAR_TEST_SCRATCH, { recursive: true })
  await prepareTemplate()
  return async () => {
    await dropLeftovers(run)
    const { issued, bytes, found } = scanLogs(process.env.BURSAR_TEST_SCRATCH!)
    process.stdout.write(`secrets: ${issued} issued · ${found.length} found in ${bytes} bytes of log\n`)
    if (found.length > 0) throw new Error(`secrets in the log: ${found.join('; ')}`)
    rmSync(process.env.BURSAR_TEST_SCRATCH!, { recursive: true, force: true })
  }
}
