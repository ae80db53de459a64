import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { importLegacy, type Imported } from '../modules/migration/index.ts'
import { openBar } from './bar.ts'
import { withDatabase } from './commands.ts'
import { Usage } from './usage.ts'

interface Values {
  json?: boolean | undefined
  organization?: string | undefined
}

/** Lines that are wrong are told one by one, up to so many. */
const mostTold = 100

/** Brings in an organization from before there were members, line by line, with a bar for whoever looks on. Done again, it goes on where it was stopped. */
export const importFile = async ([what, file]: readonly string[], values: Values): Promise<void> => {
  if (what !== 'legacy' || file === undefined) throw new Usage('import takes legacy and a file: bursar import legacy <bundle.jsonl> --organization <slug>')
  const slug = values.organization
  if (!slug) throw new Usage('--organization is needed')
  const bar = openBar(await countLines(file))
  const { counts, refused } = await withDatabase((means) => importLegacy(means, slug, linesOf(file), (done) => bar.show(done))).finally(() => bar.end())
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
    ([type, { added, known }]) => `${type.padEnd(14)}${String(added).padStart(10)} new${String(known).padStart(10)} there already`,
  )
  const end =
    refused === 0
      ? `${slug} is imported. What is next, with a token of it: bursar members rehearse`
      : `${refused} ${refused === 1 ? 'line is' : 'lines are'} refused, and nothing was written from the part of the file on in which the first of them stands. Mend them and import the file again: what is there is left as it is.`
  return [...rows, ...(rows.length > 0 ? [''] : []), end].join('\n')
}

/** The lines of a file as they come: however large it is, little of it is held at a time. */
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
