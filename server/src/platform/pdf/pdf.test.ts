import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { placesIn, readPaper } from '../../../test/harness/papers.ts'
import { encodePng } from '../../../test/harness/png.ts'
import type { Sheet } from '../../kernel/layout.ts'
import { renderSheet } from './render.ts'

const sheet = (given: Partial<Sheet> = {}): Sheet => ({
  language: 'en',
  title: 'Invoice 1',
  author: 'Acme',
  dated: new Date('2026-03-03T10:00:00Z'),
  accent: null,
  logo: null,
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
  links: [],
  paging: 'Page {page} of {pages}',
  ...given,
})
const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const scripts = sheet({ parties: [{ label: 'To', lines: ['株式会社東京', '주식회사', 'Żółć €¥'] }] })

test('draws the accent colour as a line, as an artifact that screen readers skip', async () => {
  const [plain, coloured] = await Promise.all([renderSheet(sheet()), renderSheet(sheet({ accent: '#c8441b' }))])
  expect(digest(coloured)).not.toBe(digest(plain))
  expect(digest(await renderSheet(sheet({ accent: '#c8441b' })))).toBe(digest(coloured))
  expect((await readPaper(coloured)).text).toBe((await readPaper(plain)).text)
})

const square = encodePng({ color: 6, depth: 8, width: 256, height: 256, pixel: (x, y) => [228, x & 255, y & 255, (x + y) & 255] })
const wordmark = encodePng({ color: 2, depth: 8, width: 900, height: 120, pixel: (x) => [20, x & 127, 90, 255] })
const links = [
  { text: 'help@acme.example', url: 'mailto:help@acme.example' },
  { text: 'acme.example', url: 'https://acme.example/' },
  { text: 'Terms', url: 'https://acme.example/terms' },
  { text: 'Privacy policy', url: 'https://acme.example/privacy' },
]

test.each([
  ['a square logo', square],
  ['a wordmark', wordmark],
])('draws %s beside the heading, with a text for screen readers, and moves nothing', async (_, logo) => {
  const rows = Array.from({ length: 60 }, (_, at) => ({ cells: [`Line ${at + 1}.`, `€${at}.00`] }))
  const long = sheet({ heading: 'Rechnungskorrektur', lines: { ...sheet().lines, rows } })
  const [plain, shown] = await Promise.all([renderSheet(long), renderSheet({ ...long, logo })])
  expect(await placesIn(shown)).toEqual(await placesIn(plain))
  const file = shown.toString('latin1')
  for (const part of ['/Subtype /Image', '/S /Figure', '/Alt (Acme)']) expect([part, file.includes(part)]).toEqual([part, true])
  expect(plain.toString('latin1')).not.toContain('/Subtype /Image')
  expect(digest(await renderSheet({ ...long, logo: Buffer.from(logo) }))).toBe(digest(shown))
  expect(shown.length - plain.length).toBeLessThan(200_000)
})

test('leaves out a logo that cannot be printed', async () => {
  const plain = digest(await renderSheet(sheet()))
  for (const logo of [square.subarray(0, 90), Buffer.from('<svg width="4" height="4"/>'), Buffer.alloc(0)])
    expect(digest(await renderSheet(sheet({ logo })))).toBe(plain)
})

test('draws links on one line above the footer of the last page, and moves nothing', async () => {
  const rows = Array.from({ length: 60 }, (_, at) => ({ cells: [`Line ${at + 1}.`, `€${at}.00`] }))
  const long = sheet({ lines: { ...sheet().lines, rows } })
  const [plain, linked] = await Promise.all([renderSheet(long), renderSheet({ ...long, links })])
  const [before, after] = [await placesIn(plain), await placesIn(linked)]
  const texts = links.map(({ text }) => text)
  expect(after.filter(({ text }) => !texts.includes(text))).toEqual(before)
  const drawn = after.filter(({ text }) => texts.includes(text))
  expect(drawn.map(({ text, page }) => [text, page])).toEqual(texts.map((text) => [text, Math.max(...before.map(({ page }) => page))]))
  // Below all content and above the footer, in one line.
  expect(new Set(drawn.map(({ y }) => y)).size).toBe(1)
  const footer = after.findLast(({ text }) => text === 'Acme')!
  expect(drawn[0]!.y).toBeGreaterThan(footer.y + 8)
  expect(drawn[0]!.y).toBeLessThan(72)
  const file = linked.toString('latin1')
  for (const { url } of links) expect([url, file.includes(`/URI (${url})`)]).toEqual([url, true])
  expect(file.match(/\/S \/Link/g)).toHaveLength(4)
})

test('cuts links that are too long for the line', async () => {
  const long = 'a'.repeat(200)
  const drawn = await placesIn(await renderSheet(sheet({ links: [{ text: `${long}@acme.example`, url: `mailto:${long}@acme.example` }, ...links.slice(1)] })))
  const last = drawn.find(({ text }) => text === 'Privacy policy')!
  expect(last.x + last.width).toBeLessThanOrEqual(595.28 - 54)
  expect(drawn.some(({ text }) => /^a+…$/.test(text))).toBe(true)
})

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
