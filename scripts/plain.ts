import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { parseSync } from 'oxc-parser'

/** A sentence with a subject such as `what`, `who` or `nobody`. docs/style.md shows alternatives. */
export interface Finding {
  readonly file: string
  readonly line: number
  readonly text: string
}

const opener = /^(?:what(?:ever)?|who(?:ever|se)?|no one)\b/i
const indefinite = /\b(?:whoever|whatever|whichever|whomever|somebody|someone|anybody|anyone|nobody|no one|everybody|everyone)\b/i

/** Splits a text into clauses. A clause begins after a full stop, a semicolon, a colon, a dash or an opening bracket. */
export const clausesOf = (text: string): string[] =>
  text
    .replace(/`[^`]*`/g, '`code`')
    .split(/[.!?;:(]\s+|[.!?;:]$|\s[–—-]\s|\(/)
    .map((clause) => clause.trim())
    .filter((clause) => clause !== '')

/** True if a clause of the text has a banned subject. A question may begin with `what` or `who`. */
export const isVague = (text: string): boolean =>
  indefinite.test(text.replace(/`[^`]*`/g, '')) || clausesOf(text.replace(/[^.!?]*\?/g, '')).some((clause) => opener.test(clause))

const titled = new Set(['test', 'it', 'describe'])

/** A comment or a test title, on one line. */
export interface Prose extends Finding {
  readonly kind: 'comment' | 'test title'
}

/** Lists the comments and test titles of a file. Consecutive line comments are one text. */
export const proseOf = (file: string, text: string): Prose[] => {
  const { comments, program } = parseSync(file, text)
  const lineOf = (at: number): number => text.slice(0, at).split('\n').length
  const spoken = (kind: Prose['kind']) => (piece: Piece) => ({ file, kind, line: lineOf(piece.start), text: piece.text.replace(/\s+/g, ' ').trim() })
  const remarks = joinLines(
    comments.map(({ type, value, start, end }) => ({ start, end, text: type === 'Block' ? value.replace(/^\s*\*\s?/gm, ' ') : value })),
    text,
  )
  const titles = file.endsWith('.test.ts') ? titlesIn(program) : []
  return [...remarks.map(spoken('comment')), ...titles.map(spoken('test title'))]
}

/** Finds comments and test titles with a banned subject. Other checks handle directives and commented-out code. */
export const findVague = (file: string, text: string): Finding[] => proseOf(file, text).filter((piece) => isVague(piece.text))

interface Piece {
  readonly start: number
  readonly end: number
  readonly text: string
}

/** Joins consecutive line comments into one text. */
const joinLines = (pieces: readonly Piece[], source: string): Piece[] => {
  const joined: Piece[] = []
  for (const piece of pieces) {
    const last = joined.at(-1)
    if (last && source.startsWith('//', piece.start) && source.startsWith('//', last.start) && /^\n[ \t]*$/.test(source.slice(last.end, piece.start)))
      joined[joined.length - 1] = { start: last.start, end: piece.end, text: `${last.text} ${piece.text}` }
    else joined.push(piece)
  }
  return joined
}

/** Collects the first argument of each call of `test`, `it` and `describe`, including `test.each(…)(…)`. */
const titlesIn = (program: unknown): Piece[] => {
  const found: Piece[] = []
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit)
    if (typeof node !== 'object' || node === null) return
    const { type, callee, arguments: args } = node as { type?: string; callee?: unknown; arguments?: readonly unknown[] }
    if (type === 'CallExpression' && titled.has(rootOf(callee))) {
      const title = args?.[0] as { type?: string; start: number; end: number; value?: unknown; quasis?: { value: { cooked: string } }[] } | undefined
      if (title?.type === 'Literal' && typeof title.value === 'string') found.push({ start: title.start, end: title.end, text: title.value })
      if (title?.type === 'TemplateLiteral') found.push({ start: title.start, end: title.end, text: title.quasis!.map(({ value }) => value.cooked).join('…') })
    }
    Object.values(node).forEach(visit)
  }
  visit(program)
  return found
}

const rootOf = (callee: unknown): string => {
  const { type, name, object, callee: inner, tag } = (callee ?? {}) as { type?: string; name?: string; object?: unknown; callee?: unknown; tag?: unknown }
  if (type === 'Identifier') return name!
  return type === undefined ? '' : rootOf(object ?? inner ?? tag)
}

if (import.meta.main)
  for (const file of execFileSync('git', ['ls-files', '*.ts', '*.tsx', '*.js', '*.cjs'], { encoding: 'utf8' }).trim().split('\n'))
    for (const { line, text } of findVague(file, readFileSync(file, 'utf8'))) console.log(`${file}:${line}: ${text}`)
