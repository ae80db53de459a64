import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { parseArgs, stripVTControlCharacters } from 'node:util'

/** A promise of this project, with the command that shows whether it holds. */
interface Claim {
  readonly area: string
  readonly title: string
  readonly claim: string
  readonly command: string
  /** The step of `.ci/run` that runs the command. Absent: `.ci/run` does not run it. */
  readonly step?: string
  /** The line that a passing run prints: `N` is any number, `…` any text. If absent, the claim holds if the whole run passes. */
  readonly line?: string
  /** The line that the last passing run printed, and the day of that run. */
  seen?: string
  seen_on?: string
  /** The number of cases in the daily run and in the long run, if they differ. */
  readonly daily?: string
  readonly long?: string
  /** A goal that is missed, or a part that was never run. */
  readonly missed?: string
}

const root = new URL('../', import.meta.url)
const data = new URL('scripts/proof.json', root)
const page = new URL('docs/proof.md', root)

const readClaims = (): Claim[] => (JSON.parse(readFileSync(data, 'utf8')) as { claims: Claim[] }).claims

/** Turns an expected line with `N` and `…` into a regular expression. */
const patternOf = (line: string): RegExp =>
  new RegExp(
    `^${line
      .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
      .replace(/\bN\b/g, '[\\d.,]+')
      .replaceAll('…', '.*')}$`,
  )

const render = (claims: readonly Claim[]): string => {
  const areas = [...new Set(claims.map(({ area }) => area))]
  const missed = claims.flatMap(({ missed: text }) => (text === undefined ? [] : [text]))
  const section = ({ title, claim, command, line, seen, seen_on, daily, long, missed: gap }: Claim) => [
    `### ${title}`,
    '',
    claim,
    '',
    `- command: \`${command}\``,
    line === undefined ? '- passes with the whole run' : `- passing line: \`${line}\``,
    ...(seen === undefined ? [] : [`- last seen${seen_on === undefined ? '' : ` on ${seen_on}`}: \`${seen.length > 120 ? `${seen.slice(0, 120)}…` : seen}\``]),
    ...(daily === undefined ? [] : [`- daily: ${daily}`]),
    ...(long === undefined ? [] : [`- ${daily === undefined ? 'note' : 'long run'}: ${long}`]),
    ...(gap === undefined ? [] : [`- **missed**: ${gap}`]),
    '',
  ]
  return [
    '# Proof',
    '',
    '<!-- Written by `node scripts/proof.ts` from scripts/proof.json. Edit that file. -->',
    '',
    'Each claim of this project has a command that shows whether it holds. `.ci/run` runs the commands from a clean clone with daily counts. `.ci/run --full` runs the long counts, for hours.',
    '',
    'In a passing line, `N` stands for any number and `…` for any text.',
    '',
    '## Missed goals and gaps',
    '',
    ...missed.map((text) => `- ${text}`),
    '- [Performance](performance.md) lists the missed goals of the benchmarks.',
    '',
    ...areas.flatMap((area) => [`## ${area}`, '', ...claims.filter((claim) => claim.area === area).flatMap(section)]),
  ]
    .join('\n')
    .trimEnd()
    .concat('\n')
}

/** Reads the output of each step from a log of `.ci/run`. */
const stepsOf = (log: string): Map<string, string[]> => {
  const steps = new Map<string, string[]>()
  let current: string[] | undefined
  for (const line of stripVTControlCharacters(log).split('\n')) {
    const [, name, ended] = /^=== ([\w-]+)(: exit .*)?$/.exec(line) ?? []
    if (name === undefined) current?.push(line.trimEnd())
    else if (ended !== undefined) current = undefined
    else steps.set(name, (current = []))
  }
  return steps
}

/** Copies the last passing line of each claim from a log into the data file. Returns the claims without such a line. */
const takeLines = (file: string): string[] => {
  const claims = readClaims()
  const steps = stepsOf(readFileSync(file, 'utf8'))
  const day = statSync(file).mtime.toISOString().slice(0, 10)
  const problems: string[] = []
  for (const claim of claims) {
    const output = claim.step === undefined ? undefined : steps.get(claim.step)
    if (output === undefined || claim.line === undefined) continue
    const pattern = patternOf(claim.line)
    const found = output.findLast((line) => pattern.test(line))
    if (found === undefined) problems.push(`${claim.title}: step ${claim.step} printed no line like: ${claim.line}`)
    else Object.assign(claim, { seen: found, seen_on: day })
  }
  writeFileSync(data, `${JSON.stringify({ claims }, null, 2)}\n`)
  return problems
}

/** Finds the problems of docs/proof.md and its data, for `pnpm check`. */
export const checkProof = async (): Promise<string[]> => {
  const claims = readClaims()
  return [
    ...claims
      .filter(({ line, seen }) => seen !== undefined && (line === undefined || !patternOf(line).test(seen)))
      .map(({ title, seen }) => `scripts/proof.json: the last seen line of "${title}" does not match its passing line: ${seen}`),
    ...(readFileSync(page, 'utf8') === render(claims) ? [] : ['docs/proof.md differs from scripts/proof.json. Run: node scripts/proof.ts']),
  ]
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { log: { type: 'string' } } })
  const problems = values.log === undefined ? [] : takeLines(values.log)
  writeFileSync(page, render(readClaims()))
  for (const problem of problems) console.error(problem)
  process.exitCode = problems.length > 0 ? 1 : 0
}
