import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { parseSync } from 'oxc-parser'
import { check } from 'recheck'
import { document } from '../contract/src/openapi.ts'
import { versions } from '../contract/src/index.ts'

interface Expression {
  readonly place: string
  readonly source: string
  readonly flags: string
}

const covered = /^(?:contract|server|views|web)\/src\/.*(?<!\.test)\.tsx?$/

/** Lists the regular expressions of a file: literals, and calls of `RegExp` with constant text. */
export const expressionsOf = (file: string, text: string): Expression[] => {
  const found: Expression[] = []
  const placeOf = (at: number) => `${file}:${text.slice(0, at).split('\n').length}`
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit)
    if (typeof node !== 'object' || node === null || node instanceof RegExp) return
    const {
      start,
      regex,
      callee,
      arguments: args,
    } = node as {
      start: number
      regex?: { pattern: string; flags: string }
      callee?: { name?: string }
      arguments?: { value?: unknown }[]
    }
    if (regex) found.push({ place: placeOf(start), source: regex.pattern, flags: regex.flags })
    if (callee?.name === 'RegExp' && typeof args?.[0]?.value === 'string')
      found.push({ place: placeOf(start), source: args[0].value, flags: typeof args[1]?.value === 'string' ? args[1].value : '' })
    Object.values(node).forEach(visit)
  }
  visit(parseSync(file, text).program)
  return found
}

/** Lists the patterns of the contract, including those of the validation library. */
const patternsOf = (version: (typeof versions)[number]): Expression[] => {
  const found: Expression[] = []
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit)
    if (typeof node !== 'object' || node === null) return
    const { pattern } = node as { pattern?: unknown }
    if (typeof pattern === 'string') found.push({ place: `contract/openapi/${version}.json`, source: pattern, flags: 'u' })
    Object.values(node).forEach(visit)
  }
  visit(document(version))
  return found
}

/**
 * Finds regular expressions whose time can grow faster than the length of the text. With one such expression, a single
 * request can block the process. Also reports expressions that the analysis could not classify.
 */
export const superLinear = async (contents: ReadonlyMap<string, string>): Promise<string[]> => {
  const all = [...[...contents].flatMap(([file, text]) => (covered.test(file) ? expressionsOf(file, text) : [])), ...versions.flatMap(patternsOf)]
  const problems: string[] = []
  for (const [key, same] of Map.groupBy(all, ({ source, flags }) => `/${source}/${flags.replace(/[dgy]/g, '')}`)) {
    const { source, flags, place } = same[0]!
    const result = await check(source, flags.replace(/[dgy]/g, ''), { timeout: 20_000 })
    if (result.status === 'vulnerable') problems.push(`${place}: ${key} takes ${result.complexity.summary} time, for example for ${result.attack.pattern}`)
    if (result.status === 'unknown') problems.push(`${place}: ${key} could not be judged (${result.error.kind}). Write it more simply.`)
  }
  return problems
}

if (import.meta.main) {
  const files = execFileSync('git', ['ls-files', '*.ts', '*.tsx'], { encoding: 'utf8' }).trim().split('\n')
  for (const problem of await superLinear(new Map(files.map((file) => [file, readFileSync(file, 'utf8')])))) console.log(problem)
}
