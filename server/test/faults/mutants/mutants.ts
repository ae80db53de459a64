import { parseSync } from 'oxc-parser'

/**
 * A mutant is a known bug that is described in a text file. The line `bug:` describes the bug, and `check:` is the command
 * that must fail. The line `fails:` is the title of the failing test, or `says:` quotes the output. Pairs of code to find
 * and code to put in its place follow. The code to find is compared without whitespace, comments and trailing commas. It
 * must occur once in the whole source tree. New comments, reformatting and moved files therefore need no new mutant.
 */
export interface Mutant {
  readonly name: string
  /** The bug, as a sentence. */
  readonly bug: string
  /** The command that must fail. */
  readonly check: string
  /** Words that the output of the check must contain. A check that fails for another reason has not found the bug. */
  readonly says: string
  /** The part of `says` that is the title of a test; undefined if `says` quotes another message. */
  readonly title: string | undefined
  readonly edits: readonly Edit[]
}

interface Edit {
  readonly find: string
  readonly put: string
}

/** Returns the name of the mutant that a file describes, or undefined for any other file. */
export const mutantName = (file: string): string | undefined => /^server\/test\/faults\/mutants\/(.+)\.txt$/.exec(file)?.[1]

/** True for the files that a mutant may change. */
export const isSource = (file: string): boolean =>
  /^(server|contract|views|web|web\/dashboard)\/src\/.*\.(tsx?|js)$|^server\/migrations\/.*\.sql$|^server\/bin\/|^deploy\//.test(file) &&
  !file.endsWith('.test.ts')

export const parseMutant = (name: string, text: string): Mutant => {
  const [head = '', ...parts] = text.split(/^--- find$/m)
  const find = (label: string): string | undefined => new RegExp(`^${label}: (.+)$`, 'm').exec(head)?.[1]
  const field = (label: string): string => {
    const value = find(label)
    if (value === undefined) throw new Error(`${name} has no line "${label}: …".`)
    return value
  }
  const edits = parts.map((part) => {
    const [find = '', put] = part.split(/^--- put$/m)
    if (find.trim() === '' || put === undefined) throw new Error(`${name} has a "--- find" without code, or without "--- put".`)
    return { find: trimBlock(find), put: trimBlock(put) }
  })
  if (edits.length === 0) throw new Error(`${name} changes no code.`)
  const title = find('fails')
  return { name, bug: field('bug'), check: field('check'), says: title ?? field('says'), title, edits }
}

const trimBlock = (text: string): string => text.replace(/^\n/, '').replace(/\n\s*$/, '')

/** A file reduced to the characters that are compared, with the position of each in the original text. */
interface Code {
  readonly text: string
  readonly compact: string
  readonly positions: readonly number[]
}

/** Removes whitespace, comments and commas before a closing bracket. */
export const compactCode = (file: string, text: string): Code => {
  const comments = file.endsWith('.sql') ? sqlComments(text) : parseSync(file, text).comments
  const ends = new Map(comments.map(({ start, end }) => [start, end]))
  const positions: number[] = []
  for (let at = 0; at < text.length; at++) {
    const end = ends.get(at)
    if (end !== undefined) at = end - 1
    else if (/\S/.test(text[at]!)) {
      if (')]}'.includes(text[at]!) && text[positions.at(-1)!] === ',') positions.pop()
      positions.push(at)
    }
  }
  return { text, positions, compact: positions.map((at) => text[at]!).join('') }
}

const sqlComments = (text: string) => [...text.matchAll(/--.*$/gm)].map(({ index, 0: comment }) => ({ start: index, end: index + comment.length }))

/** Compacts a piece of code like `compactCode`, but without a parser, because a piece of code is often incomplete on its own. */
const compactPiece = (piece: string): string =>
  piece
    .replace(/^\s*(\/\/|--|\/?\*).*$/gm, '')
    .replace(/\s+/g, '')
    .replace(/,(?=[)\]}])/g, '')

/** Applies a mutant. Returns the changed files. Throws if the code to find does not occur exactly once. */
export const applyMutant = (mutant: Mutant, tree: ReadonlyMap<string, Code>): Map<string, string> => {
  const changed = new Map<string, Code>()
  for (const { find, put } of mutant.edits) {
    const piece = compactPiece(find)
    const places = [...tree].flatMap(([file]) => {
      const code = changed.get(file) ?? tree.get(file)!
      const at = code.compact.indexOf(piece)
      if (at === -1) return []
      const again = code.compact.indexOf(piece, at + 1)
      return again === -1
        ? [{ file, code, at }]
        : [
            { file, code, at },
            { file, code, at: again },
          ]
    })
    if (places.length !== 1)
      throw new Error(
        `${mutant.name}: this code must occur once in the source, and occurs ${places.length === 0 ? 'nowhere' : `in ${places.map(({ file }) => file).join(' and ')}`}:\n${find}`,
      )
    const [{ file, code, at }] = places as [(typeof places)[number]]
    const text = `${code.text.slice(0, code.positions[at])}${put}${code.text.slice(code.positions[at + piece.length - 1]! + 1)}`
    changed.set(file, compactCode(file, text))
  }
  return new Map([...changed].map(([file, { text }]) => [file, text]))
}

/** The source tree in the form that `applyMutant` searches. */
export const compactTree = (contents: ReadonlyMap<string, string>): Map<string, Code> =>
  new Map([...contents].filter(([file]) => isSource(file)).map(([file, text]) => [file, compactCode(file, text)]))

/** Returns the reasons why a mutant no longer applies. Its code is not found exactly once, or its check names a missing test. */
export const mismatches = (mutant: Mutant, tree: ReadonlyMap<string, Code>, contents: ReadonlyMap<string, string>): string[] => {
  const problems: string[] = []
  try {
    applyMutant(mutant, tree)
  } catch (error) {
    problems.push((error as Error).message)
  }
  const [, paths, title] = /vitest run ((?:[^-\s]\S*\s*)+)(?:-t (.+))?$/.exec(mutant.check) ?? []
  if (paths === undefined) return problems
  const named = paths.trim().split(/\s+/)
  // A test file may have a folder of the same name with its cases.
  const files = [...contents].filter(([file]) => file.endsWith('.ts') && named.some((path) => file.startsWith(path)))
  const tests = files.map(([, text]) => text)
  if (!files.some(([file]) => file.endsWith('.test.ts'))) problems.push(`${mutant.name}: there is no test file ${named.join(', ')}`)
  // A pattern may begin with the name of a group, which is not always in the test file.
  if (title !== undefined && !tests.some((text) => new RegExp(title.split('.*').at(-1)!).test(text)))
    problems.push(`${mutant.name}: no test in ${named.join(', ')} has a title with "${title}"`)
  if (mutant.title !== undefined && !tests.some((text) => text.includes(mutant.title!)))
    problems.push(`${mutant.name}: no test in ${named.join(', ')} has the title "${mutant.title}"`)
  return problems
}
