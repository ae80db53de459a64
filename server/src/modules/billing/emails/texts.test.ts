import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../../../../..')

/** All files with texts for buyers: messages and pages, emails, documents. */
const files = [
  ...readdirSync(join(root, 'web/src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => `web/src/${name}`),
  ...readdirSync(join(root, 'server/src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => /(templates|words|emails)\.ts$/.test(name))
    .map((name) => `server/src/${name}`),
]

/** Patterns of sentences that announce a charge for usage. Usage is not billed, so no text may announce it. */
const promises = [
  /\b(usage|what you use|you use|units used|consumption)\b[^.'"`]*\b(added|billed|charged|invoiced|invoice)\b/i,
  /\b(added|billed|charged|invoiced)\b[^.'"`]*\b(usage|what you use|consumption)\b/i,
  /(verbrauch|nutzung)[^.'"`]*(dazu|hinzu|berechnet|abgerechnet|rechnung|belastet)/i,
]
const promisesIn = (text: string): string[] => text.split('\n').filter((line) => promises.some((promise) => promise.test(line)))

test('finds no page, email or document that announces a charge for usage', () => {
  expect(files.length).toBeGreaterThan(20)
  expect(files).toContain('server/src/modules/billing/templates/templates.ts')
  expect(files).toContain('web/src/portal/subscriptions/de.ts')
  const found = files.flatMap((file) => promisesIn(readFileSync(join(root, file), 'utf8')).map((line) => `${file}: ${line.trim()}`))
  expect(found).toEqual([])
})

test('detects the sentences about billed usage that earlier pages and emails contained, in English and German', () => {
  for (const text of [
    'What you use is added at the end of each period.',
    'What you use is added to it.',
    'Was Sie verbrauchen, kommt am Ende jedes Zeitraums dazu.',
  ])
    expect(promisesIn(text)).toEqual([text])
  for (const text of ['See what customers have used', 'Nutzungsereignisse senden', 'This code is used.']) expect(promisesIn(text)).toEqual([])
})
