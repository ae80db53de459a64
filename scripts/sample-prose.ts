import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { proseOf } from './plain.ts'

// Prints random comments, test titles and paragraphs for a review by an outside reader. The commit hash seeds the selection.
const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim()
const { values } = parseArgs({ options: { count: { type: 'string', default: '40' }, seed: { type: 'string', default: git('rev-parse', 'HEAD') } } })

/** True for texts of fewer than five words, which are too short to be unclear, and for linter directives. */
const isTrivial = (text: string): boolean => text.split(' ').length < 5 || /^(oxlint|@ts-|eslint|biome)/.test(text)

/** Lists the paragraphs and list items of a document, without code, tables and headings. */
const paragraphsOf = (file: string) => {
  const text = readFileSync(file, 'utf8').replace(/```[^]*?```/g, (code) => code.replace(/[^\n]/g, ''))
  let line = 1
  return text.split(/\n(?=\n|\s*(?:[-*]|\d+\.) )/).flatMap((block) => {
    const at = line + (/^\n*/.exec(block)?.[0].length ?? 0)
    line += block.split('\n').length
    const said = block.replace(/\s+/g, ' ').trim()
    return /^[|#<!]/.test(said) || said === '' ? [] : [{ file, kind: 'paragraph', line: at, text: said }]
  })
}

const files = git('ls-files', '*.ts', '*.tsx', '*.js', '*.md').split('\n')
const all = files
  .flatMap((file) => (file.endsWith('.md') ? paragraphsOf(file) : proseOf(file, readFileSync(file, 'utf8'))))
  .filter(({ text }) => !isTrivial(text))
const rank = ({ file, line, text }: (typeof all)[number]) => createHash('sha256').update(`${values.seed} ${file} ${line} ${text}`).digest('hex')
const chosen = all
  .map((piece) => ({ piece, at: rank(piece) }))
  .toSorted((a, b) => a.at.localeCompare(b.at))
  .slice(0, Number(values.count))

console.log(`${chosen.length} of ${all.length} comments, test titles and paragraphs · seed ${values.seed}\n`)
for (const [at, { piece }] of chosen.entries()) console.log(`${at + 1}. ${piece.file}:${piece.line} (${piece.kind})\n   ${piece.text}\n`)
