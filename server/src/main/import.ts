import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { bursar } from '../kernel/command-name.ts'
import { importLegacy, type Imported } from '../modules/migration/index.ts'
import { findLivingOrganization } from '../modules/organizations/index.ts'
import { openBar, withStatus } from './bar.ts'
import { withDatabase } from './database.ts'
import { Usage } from './usage.ts'

interface Values {
  json?: boolean | undefined
  organization?: string | undefined
}

/** Maximum number of rejected lines that are printed. */
const mostTold = 100

/**
 * Imports an organization in its state before the member migration from a file, line by line, with a progress bar. A
 * repeated import resumes where the previous one stopped.
 */
export const importFile = async ([what, file]: readonly string[], values: Values): Promise<void> => {
  if (what !== 'legacy' || file === undefined) throw new Usage('import takes legacy and a file: bursar import legacy <bundle.jsonl> --organization <slug>')
  const slug = values.organization
  if (!slug) throw new Usage('--organization is needed')
  const bar = openBar(await withStatus('counting the lines', () => countLines(file)))
  const { counts, refused } = await withDatabase('import legacy', async ({ db, unrecorded, recordRun, platform }) => {
    try {
      return await importLegacy({ transact: unrecorded, platform }, slug, linesOf(file), (done) => bar.show(done))
    } finally {
      const organization = await findLivingOrganization(db, { slug })
      if (organization) await recordRun(organization.id)
    }
  }).finally(() => bar.end())
  if (values.json) process.stdout.write(`${JSON.stringify({ organization: slug, counts, refused })}\n`)
  else {
    for (const { line, says } of refused.slice(0, mostTold)) process.stderr.write(`line ${line}: ${says}\n`)
    if (refused.length > mostTold) process.stderr.write(`and ${refused.length - mostTold} more lines\n`)
    process.stdout.write(`${summary(slug, counts, refused.length)}\n`)
  }
  if (refused.length > 0) process.exitCode = 1
}

const summary = (slug: string, counts: Imported['counts'], refused: number): string => {
  const rows = Object.entries(counts).map(
    ([type, { added, known }]) => `${type.padEnd(14)}${String(added).padStart(10)} new${String(known).padStart(10)} unchanged`,
  )
  const end =
    refused === 0
      ? `${slug} is imported. Next, with a token of this organization: ${bursar} members rehearse`
      : `${refused} ${refused === 1 ? 'line was' : 'lines were'} rejected. Records after the batch of the first rejected line were not written. Fix the lines and import the file again: existing records stay unchanged.`
  return [...rows, ...(rows.length > 0 ? [''] : []), end].join('\n')
}

/** Reads a file line by line with little memory, however large it is. */
const linesOf = (file: string) => createInterface({ input: open(file), crlfDelay: Infinity })

const open = (file: string) => createReadStream(file)

const countLines = async (file: string): Promise<number> => {
  let count = 0
  try {
    for await (const chunk of open(file)) for (let at = (chunk as Buffer).indexOf(10); at >= 0; at = (chunk as Buffer).indexOf(10, at + 1)) count++
  } catch (error) {
    throw new Usage(`${file} cannot be read: ${(error as Error).message}`)
  }
  return count
}
