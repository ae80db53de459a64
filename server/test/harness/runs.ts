import { mkdirSync, rmSync } from 'node:fs'
import { dropRun, prepareTemplate } from './database.ts'
import { readDumps } from './dumps.ts'
import { scanLogs } from './secrets.ts'

/** Prepares a run: creates its log folder and the template database. */
export const beginRun = async (name: string): Promise<void> => {
  process.env.BURSAR_TEST_RUN = name
  process.env.BURSAR_TEST_SCRATCH = `${process.cwd()}/.scratch/${name}`
  rmSync(process.env.BURSAR_TEST_SCRATCH, { recursive: true, force: true })
  mkdirSync(process.env.BURSAR_TEST_SCRATCH, { recursive: true })
  await prepareTemplate()
}

/** Cleans up. Searches all logs and database dumps for every issued secret. Returns the figures and the problems. */
export const endRun = async (): Promise<{ figures: string; problems: string[] }> => {
  await dropRun(process.env.BURSAR_TEST_RUN!, process.env.BURSAR_TEST_SCRATCH!)
  const { issued, bytes, found } = scanLogs(process.env.BURSAR_TEST_SCRATCH!)
  const dumps = readDumps(process.env.BURSAR_TEST_SCRATCH!)
  rmSync(process.env.BURSAR_TEST_SCRATCH!, { recursive: true, force: true })
  const nothing = process.env.CI !== undefined && (issued === 0 || bytes === 0 || dumps.bytes === 0) ? ['the search for secrets had nothing to search'] : []
  return {
    figures: [
      `secrets: ${issued} issued · ${found.length} found in ${bytes} bytes of log`,
      `secrets: ${issued} issued · ${dumps.found} found in the dump · ${dumps.databases} databases, ${dumps.bytes} bytes`,
    ].join('\n'),
    problems: [...nothing, ...found.map((one) => `a secret in the log: ${one}`), ...dumps.problems],
  }
}
