import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'oxc-parser'
import { expect, test } from 'vitest'

type TextFunction = (text: string) => unknown

const root = fileURLToPath(new URL('../../../', import.meta.url))

interface Parameter {
  readonly type: string
  readonly optional?: boolean
  readonly typeAnnotation?: { readonly typeAnnotation: { readonly type: string } }
}
interface Declared {
  readonly id: { readonly name: string }
  readonly init?: { readonly type: string; readonly async: boolean; readonly params: readonly Parameter[] }
}

const isText = ({ typeAnnotation }: Parameter) => typeAnnotation?.typeAnnotation.type === 'TSStringKeyword'

/** True for a function that can be called with one text: the other parameters are optional. */
const takesText = ({ init }: Declared): boolean =>
  init?.type === 'ArrowFunctionExpression' &&
  !init.async &&
  init.params.length > 0 &&
  isText(init.params[0]!) &&
  init.params.slice(1).every(({ optional, type }) => optional === true || type === 'AssignmentPattern')

/** Lists the names of the exported functions of a file that take one text. */
const textFunctionsOf = (file: string): string[] => {
  const { program } = parseSync(file, readFileSync(`${root}${file}`, 'utf8'))
  return (program.body as { type: string; declaration?: { declarations?: Declared[] } }[])
    .filter(({ type }) => type === 'ExportNamedDeclaration')
    .flatMap(({ declaration }) => declaration?.declarations ?? [])
    .filter(takesText)
    .map(({ id }) => id.name)
}

const sources = execFileSync('git', ['ls-files', 'contract/src', 'server/src', 'views/src', 'web/src'], { cwd: root, encoding: 'utf8' })
  .trim()
  .split('\n')
  // Excludes the files in `main`, because only the operator can give the texts that they read from the command line.
  .filter((file) => /(?<!\.test)\.tsx?$/.test(file) && !file.startsWith('server/src/main/'))

/** Calls for functions that take other arguments besides the text, or bytes instead of text. */
const prepared: Record<string, () => Promise<TextFunction>> = {
  nearest: async () => {
    const { nearest } = await import('../../src/kernel/nearest.ts')
    return (text) => nearest(text, ['name', 'email', text.slice(0, 40)])
  },
  trimEndOf: async () => {
    const { trimEndOf } = await import('../../src/kernel/texts.ts')
    return (text) => trimEndOf(`${text}!`, text.slice(0, 1))
  },
  readTarget: async () => {
    const { readTarget } = await import('../../src/gateways/egress/targets.ts')
    return (text) => readTarget(`https://${text}`, { loopback: false, own_host: 'bursar.example' })
  },
  readTaxId: async () => {
    const { readTaxId } = await import('../../src/modules/customers/customers/tax-ids.ts')
    return (text) => readTaxId(text, 'DE')
  },
  openMethods: async () => {
    const { openMethods } = await import('../../src/http/unrouted.ts')
    const { operations } = await import('@bursar/contract')
    return openMethods(operations.map((operation) => ({ operation })))
  },
  readJson: async () => {
    const { readJson } = await import('../../src/http/parse.ts')
    return (text) => readJson(Buffer.from(text))
  },
  'readJson of a text': async () => {
    const { readJson } = await import('../../src/http/parse.ts')
    return (text) => readJson(Buffer.from(JSON.stringify({ text })))
  },
  'typeOf of a file': async () => {
    const { typeOf } = await import('../../src/kernel/pictures.ts')
    return (text) => typeOf(Buffer.from(text))
  },
}

/** Pieces of text. If they are repeated, a careless regular expression can match them in many ways. */
const pieces = [
  'a',
  '0',
  '/',
  ' ',
  '-',
  '.',
  '"',
  '<',
  '[',
  '{',
  '@',
  '\ufffd',
  'a@',
  'a.',
  '=a;',
  '&a=',
  ', ',
  '\t>',
  '<!DOCTYPE\t\t>',
  '<!-- -->',
  '{"',
  'https://a',
]
/** Test texts: each piece repeated to about these lengths, with and without another character at the end. */
const ladders = pieces.flatMap((piece) =>
  ['', '\u0001'].map((end) => ({ piece, rungs: [1000, 4000, 16_000, 64_000].map((length) => piece.repeat(Math.ceil(length / piece.length)) + end) })),
)

/** Shorter times are counted as this one, because the CPU clock of some machines advances in steps of 4 ms. */
const shortest = 8

const milliseconds = (work: TextFunction, text: string): number => {
  const before = process.threadCpuUsage()
  try {
    work(text)
  } catch {
    // The function may refuse the text. Only the time is measured.
  }
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}

/** Measures a function at growing lengths. Returns the texts for which four times the length takes eight times as long, or longer. */
const slowTexts = (work: TextFunction): string[] =>
  ladders.flatMap(({ piece, rungs: [first, ...longer] }) => {
    let before = Math.max(shortest, milliseconds(work, first!))
    for (const text of longer) {
      // Repeats a slow measurement, because another process may have interrupted it.
      let after = Infinity
      for (let tries = 0; tries < 9 && after >= 8 * before; tries++) after = Math.min(after, milliseconds(work, text))
      if (after >= 8 * before) return [`${JSON.stringify(piece)} repeated to ${text.length}: ${before.toFixed(1)} ms, then ${after.toFixed(1)} ms`]
      before = Math.max(shortest, after)
    }
    return []
  })

test('takes linear time in every exported function that reads a text', async () => {
  const functions = new Map<string, TextFunction>()
  for (const file of sources)
    for (const name of textFunctionsOf(file)) {
      const module = (await import(/* @vite-ignore */ `${root}${file}`)) as Record<string, TextFunction>
      functions.set(`${file} ${name}`, module[name]!)
    }
  expect(functions.size).toBeGreaterThan(40)
  for (const [name, prepare] of Object.entries(prepared)) functions.set(name, await prepare())
  const slow = [...functions].flatMap(([name, work]) => slowTexts(work).map((text) => `${name}: ${text}`))
  expect(slow).toEqual([])
}, 300_000)

test('the measurement detects a function that takes quadratic time', () => {
  expect(slowTexts((text) => text.replace(/\/+$/, ''))).toHaveLength(1)
})
