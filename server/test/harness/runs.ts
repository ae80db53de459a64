import { mkdirSync, rmSync } from 'node:fs'
import { dropLeftovers, prepareTemplate } from './database.ts'
import { scanLogs } from './secrets.ts'

/** Readies the machine for a run: a place for its logs, a template to clone. */
export const beginRun = async (name: string): Promise<void> => {
  process.env.BURSAR_TEST_RUN = name
  process.env.BURSAR_TEST_SCRATCH = `${process.cwd()}/.scratch/${name}`
  rmSync(process.env.BURSAR_TEST_SCRATCH, { recursive: true, force: true })
  mkdirSync(process.env.BURSAR_TEST_SCRATCH, { recursive: true })
  await prepareTemplate()
}

/** Clears up, and searches everything that was logged for every secret that was issued: how many, and what is wrong. */
export const endRun = async (): Promise<{ figures: string; problems: string[] }> => {
  await dropLeftovers(process.env.BURSAR_TEST_RUN!)
  const { issued, bytes, found } = scanLogs(process.env.BURSAR_TEST_SCRATCH!)
  rmSync(process.env.BURSAR_TEST_SCRATCH!, { recursive: true, force: true })
  const nothing = process.env.CI !== undefined && (issued === 0 || bytes === 0) ? ['the search for secrets had nothing to search'] : []
  return {
    figures: `secrets: ${issued} issued · ${found.length} found in ${bytes} bytes of log`,
    problems: [...nothing, ...found.map((one) => `a secret in the log: ${one}`)],
  }
}
