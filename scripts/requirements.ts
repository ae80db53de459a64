import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { parseSync } from 'oxc-parser'

/**
 * Compares the requirements in docs/requirements.md with the test titles that carry their ids, such as `[S4-08]`.
 * `--write` updates the list of tests and the count on the page.
 */
const pageFile = 'docs/requirements.md'

/** Requirements without a test, because their feature is not built. */
const notBuilt = new Set<string>()

const readTests = (): Map<string, string> =>
  new Map(
    ['contract/src', 'server/src', 'server/test']
      .flatMap((folder) => globSync(`${folder}/**/*.test.ts`))
      .toSorted()
      .map((file) => [file, readFileSync(file, 'utf8')]),
  )

/**
 * Returns the ids in square brackets in the strings of a test file. Searches all strings, because some titles come from
 * a table of `test.each`.
 */
export const idsIn = (file: string, text: string): Set<string> => {
  const ids = new Set<string>()
  const collect = (words: string) => {
    for (const [, list] of words.matchAll(/\[(S\d+-\d+(?:,? S\d+-\d+)*)\]/g)) for (const id of list!.split(/,? /)) ids.add(id)
  }
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit)
    if (typeof node !== 'object' || node === null) return
    const { type, value, callee } = node as { type?: string; value?: unknown; callee?: unknown }
    if (type === 'CallExpression' && isDisabled(callee)) return
    if (type === 'Literal' && typeof value === 'string') collect(value)
    if (type === 'TemplateElement') collect((value as { cooked: string | null }).cooked ?? '')
    Object.values(node).forEach(visit)
  }
  if (/\[S\d+-\d+/.test(text)) visit(parseSync(file, text).program)
  return ids
}

/** True for `test.skip`, `describe.skip` and `test.todo`: such a test proves nothing. */
const isDisabled = (callee: unknown): boolean => {
  const { property } = (callee ?? {}) as { property?: { name?: string } }
  return property?.name === 'skip' || property?.name === 'todo'
}

/** Maps each id to the test files that carry it. */
const findTested = (tests: ReadonlyMap<string, string>): Map<string, string[]> => {
  const tested = new Map<string, string[]>()
  for (const [file, text] of tests) for (const id of idsIn(file, text)) tested.set(id, [...(tested.get(id) ?? []), file])
  return tested
}

const row = /^\| (S\d+-\d+) \| (.*?) \|.*\|$/gm
const listed = (page: string): string[] => [...page.matchAll(row)].map(([, id]) => id!)

const linkTo = (file: string): string => `[${file.replace(/^server\/(?:src\/modules|src|test)\//, '').replace(/\.test\.ts$/, '')}](../${file})`

/** Returns the text of a requirement's cell in the column "tests". */
const cellOf = (id: string, files: readonly string[]): string => {
  if (files.length > 0) return files.map(linkTo).join(', ')
  return notBuilt.has(id) ? 'not built yet' : 'none'
}

/** Returns the page with the current list of tests in each row, and with the current count. */
const update = (page: string, tested: ReadonlyMap<string, readonly string[]>): string => {
  const ids = listed(page)
  return page
    .replace(row, (_, id: string, sentence: string) => `| ${id} | ${sentence} | ${cellOf(id, tested.get(id) ?? [])} |`)
    .replace(/^\d+ of \d+ requirements/m, `${ids.filter((id) => tested.has(id)).length} of ${ids.length} requirements`)
}

/** Returns the number of requirements, and of those with a test. */
export const countRequirements = (): { tested: number; total: number } => {
  const ids = listed(readFileSync(pageFile, 'utf8'))
  const tested = findTested(readTests())
  return { tested: ids.filter((id) => tested.has(id)).length, total: ids.length }
}

/** Returns requirements without a test, unknown ids in titles, and outdated parts of the page. */
export const checkRequirements = (page = readFileSync(pageFile, 'utf8'), tests: ReadonlyMap<string, string> = readTests()): string[] => {
  const ids = listed(page)
  const tested = findTested(tests)
  return [
    ...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `${pageFile}: ${id} occurs twice`),
    ...ids.filter((id) => !tested.has(id) && !notBuilt.has(id)).map((id) => `${pageFile}: no test has [${id}] in its title`),
    ...[...notBuilt].filter((id) => tested.has(id)).map((id) => `scripts/requirements.ts: ${id} has a test, so remove it from notBuilt`),
    ...[...tested].flatMap(([id, files]) => (ids.includes(id) ? [] : files.map((file) => `${file}: ${pageFile} has no requirement ${id}`))),
    ...(update(page, tested) === page ? [] : [`${pageFile} lists other tests than there are. Run: node scripts/requirements.ts --write`]),
  ]
}

if (import.meta.main) {
  if (process.argv.includes('--write')) writeFileSync(pageFile, update(readFileSync(pageFile, 'utf8'), findTested(readTests())))
  const problems = checkRequirements()
  for (const problem of problems) console.log(problem)
  const { tested, total } = countRequirements()
  console.log(`requirements: ${tested}/${total}`)
  process.exitCode = problems.length > 0 ? 1 : 0
}
