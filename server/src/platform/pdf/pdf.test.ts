import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { readPaper } from '../../../test/harness/papers.ts'
import type { Sheet } from '../../kernel/layout.ts'
import { renderSheet } from './render.ts'

const sheet = (given: Partial<Sheet> = {}): Sheet => ({
  language: 'en',
  title: 'Invoice 1',
  author: 'Acme',
  dated: new Date('2026-03-03T10:00:00Z'),
  heading: 'Invoice',
  facts: [{ label: 'Number', value: '1' }],
  parties: [
    { label: 'From', lines: ['Acme'] },
    { label: 'To', lines: ['Ada'] },
  ],
  notice: '€1.00 paid',
  lines: {
    columns: [
      { label: 'What', align: 'left', share: 3 },
      { label: 'Amount', align: 'right', share: 1 },
    ],
    rows: [{ cells: ['Guide', '€1.00'] }],
  },
  totals: [{ label: 'Total', value: '€1.00', strong: true }],
  tables: [],
  notes: [],
  footer: 'Acme',
  paging: 'Page {page} of {pages}',
  ...given,
})
const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const scripts = sheet({ parties: [{ label: 'To', lines: ['株式会社東京', '주식회사', 'Żółć €¥'] }] })

test('renders the same document to the same bytes after other documents, in another process and in another time zone', async () => {
  const first = digest(await renderSheet(scripts))
  await renderSheet(sheet({ heading: '有限责任公司 서울' }))
  expect(digest(await renderSheet(scripts))).toBe(first)
  const script = `import { renderSheet } from '${new URL('render.ts', import.meta.url).href}'
    const sheet = JSON.parse(process.argv[1])
    const bytes = await renderSheet({ ...sheet, dated: new Date(sheet.dated) })
    process.stdout.write((await import('node:crypto')).createHash('sha256').update(bytes).digest('hex'))`
  const elsewhere = execFileSync(process.execPath, ['--input-type=module-typescript', '-e', script, JSON.stringify(scripts)], {
    env: { PATH: process.env.PATH, TZ: 'Pacific/Kiritimati', LANG: 'ja_JP' },
  })
  expect(elsewhere.toString()).toBe(first)
})

test('repeats column names and page numbers on every page of a long table, and wraps long names without loss', async () => {
  const long = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft'.repeat(2)
  const rows = Array.from({ length: 60 }, (_, at) => ({ cells: [`Line ${at + 1}.`, `€${at}.00`], below: ['Explained'] }))
  const { pages, count, info } = await readPaper(await renderSheet(sheet({ parties: [{ label: 'To', lines: [long] }], lines: { ...sheet().lines, rows } })))
  expect(count).toBeGreaterThan(1)
  for (const [at, text] of pages.entries()) {
    expect(text).toContain('What')
    expect(text).toContain(`Page ${at + 1} of ${count}`)
  }
  for (let at = 1; at <= 60; at++) expect(pages.join('\n')).toContain(`Line ${at}.`)
  expect(pages[0]!.replaceAll(/\s/g, '')).toContain(long)
  expect(pages.at(-1)).toContain('Total')
  expect(info).toMatchObject({ Title: 'Invoice 1', Author: 'Acme', Language: 'en', Producer: 'Bursar' })
})

test('tags the structure of the document for screen readers', async () => {
  const bytes = (await renderSheet(sheet())).toString('latin1')
  for (const mark of ['/MarkInfo', '/StructTreeRoot', '/Lang', '/DisplayDocTitle true', '/S /Table', '/S /TH', '/S /H1']) expect(bytes).toContain(mark)
})
