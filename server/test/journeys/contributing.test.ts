import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { commitTree, copyTree } from '../harness/tree.ts'
import { applyEdits, parseExample, type Edit } from '../harness/worked-example.ts'

// Follows docs/add-an-operation.md on a copy of the tree: writes each block, then runs each command of the last step.
const root = new URL('../../../', import.meta.url).pathname
const page = 'docs/add-an-operation.md'
const minutes = 60_000

/** Number of the next migration. The page has the placeholder NNNN instead, because each new migration changes this number. */
const number = String(Math.max(...readdirSync(join(root, 'server/migrations')).map((name) => Number(/^\d{4}/.exec(name)?.[0] ?? 0))) + 1).padStart(4, '0')
const { steps, edits, commands } = parseExample(readFileSync(join(root, page), 'utf8').replaceAll('NNNN', number))

let copy: string
beforeAll(() => {
  // The copy is outside the repository, so that the tools of the repository neither list nor check the copy.
  copy = mkdtempSync(join(tmpdir(), 'bursar-contributing-'))
  copyTree(root, copy)
  commitTree(copy)
})
afterAll(() => rmSync(copy, { recursive: true, force: true }))

const readOriginal = (path: string) => (existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : undefined)

/** Applies these edits to the copy. Restores every other file that the page changes to its original text. */
const write = (chosen: readonly Edit[]) => {
  const changed = applyEdits(chosen, readOriginal)
  for (const { path } of edits) {
    const text = changed.get(path) ?? readOriginal(path)
    mkdirSync(dirname(join(copy, path)), { recursive: true })
    if (text === undefined) rmSync(join(copy, path), { force: true })
    else writeFileSync(join(copy, path), text)
  }
}

/**
 * The environment of a contributor. Settings of this run are left out: they name its databases and folders. The
 * addresses of the services and the speed of the machine stay.
 */
const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) =>
    /^(PATH|HOME|TMPDIR|LANG|PG.*|BURSAR_TEST_(SERVER|REDIS|S3|S3_PORT|CHROMIUM|PACE)|NODE_COMPILE_CACHE)$/.test(name),
  ),
)

/** Runs a command in the copy. Returns its exit code, and its output without colours. */
const run = (command: string) =>
  new Promise<{ status: number | null; output: string }>((resolve, reject) => {
    const child = spawn(command, { cwd: copy, env, shell: true, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.once('error', reject)
    child.once('close', (status) => resolve({ status, output: stripVTControlCharacters(output) }))
  })

test('CONTRIBUTING and the page name the same steps', () => {
  const section = /^## Add an operation\n(.*?)^## /ms.exec(readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8'))![1]!
  expect([...section.matchAll(/^\d+\. \*\*(.+?)\*\*/gm)].map(([, step]) => step)).toEqual(steps)
  expect(steps.filter((step) => step !== steps.at(-1) && !edits.some((edit) => edit.step === step))).toEqual([])
})

test('names the step, the file and the lines if a diff of the page no longer fits', () => {
  const edit: Edit = { step: 'Contract', path: 'a.ts', before: ['one', 'two'], after: ['one', 'new', 'two'] }
  expect(applyEdits([edit], () => 'zero\none\ntwo\n').get('a.ts')).toBe('zero\none\nnew\ntwo\n')
  expect(() => applyEdits([edit], () => 'one\nthree\n')).toThrow(/"Contract" needs these lines once in a\.ts, and they occur 0 times.*\none\ntwo$/s)
  expect(() => applyEdits([edit], () => 'one\ntwo\none\ntwo\n')).toThrow(/occur 2 times/)
  expect(() => applyEdits([{ ...edit, before: undefined }], () => '')).toThrow(/creates a\.ts, which exists already/)
})

test(
  'every command of the page succeeds after its steps',
  async () => {
    expect(commands.map((command) => command.split(' ').slice(0, 2).join(' '))).toEqual([
      'pnpm examples',
      'pnpm contract',
      'pnpm check',
      'pnpm test',
      'node server/test/security/matrix/run.ts',
    ])
    write(edits)
    for (const command of commands) {
      const { status, output } = await run(command)
      expect(status, `${command}\n${output}`).toBe(0)
      // Some tools exit with 0 even if they ran no test or sent no request, so the output is checked too.
      if (command.startsWith('pnpm test')) expect(output).toMatch(/^[1-9]\d* passed, 0 failed$/m)
      if (command.includes('matrix')) expect(output).toMatch(/^cells: [1-9]\d+ · leaks: 0$/m)
    }
  },
  30 * minutes,
)

describe('with a step left out', () => {
  const notes = 'server/src/modules/customers/notes/notes.test.ts'
  const matrix = commands.at(-1)!
  const isRegistration = ({ path }: Edit) => path === 'contract/src/index.ts'
  const without = (forgotten: (edit: Edit) => boolean) => edits.filter((edit) => !forgotten(edit))
  /** Removes lines from the migration. */
  const unwritten = (line: RegExp) =>
    edits.map((edit) => (edit.step === 'Migration' ? { ...edit, after: edit.after.filter((text) => !line.test(text)) } : edit))

  test.each([
    {
      forgotten: 'the contract registration',
      written: edits.filter((edit) => edit.step === 'Contract' && !isRegistration(edit)),
      command: 'pnpm check catalogues',
      says: 'contract/src/customers/notes.ts: no file of the contract imports it',
    },
    {
      forgotten: 'the contract list entry',
      written: without((edit) => edit === edits.findLast(isRegistration)),
      command: 'pnpm check catalogues',
      says: 'operation customers:notes:create is implemented and not declared',
    },
    {
      forgotten: 'the handler in the area',
      written: without((edit) => edit.step === 'Handler' && edit.before !== undefined),
      command: 'pnpm check catalogues',
      says: 'operation customers:notes:create is declared and not implemented',
    },
    {
      forgotten: 'the grants',
      written: unwritten(/^grant /),
      command: `pnpm test ${notes} -t 'adds a note'`,
      says: 'permission denied for table customer_notes',
    },
    {
      forgotten: 'the audit triggers',
      written: unwritten(/^call note_changes_of/),
      command: `pnpm test ${notes} -t 'audit log'`,
      says: `FAIL  ${notes} > records the note in the audit log`,
    },
    {
      forgotten: 'the personal columns',
      written: without((edit) => edit.step === 'Personal columns'),
      command: `pnpm test ${notes} -t 'audit log'`,
      says: `FAIL  ${notes} > records the note in the audit log`,
    },
    {
      forgotten: 'the matrix row',
      written: without((edit) => edit.step === 'Matrix row'),
      command: matrix,
      says: 'the policy has no row for customers:notes:create',
    },
  ])('a command of the page fails without $forgotten', async ({ written, command, says }) => {
    write(written)
    const { status, output } = await run(command)
    expect(status, `${command}\n${output}`).not.toBe(0)
    expect(output).toContain(says)
  })
})
