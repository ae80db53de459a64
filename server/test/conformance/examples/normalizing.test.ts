import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { newLicenseKey, newToken, newWebhookSecret, tokenPatterns, licenseKeyPattern, webhookSecretPattern } from '../../../src/kernel/secrets.ts'
import { openNormalizer, shorten } from './normalizing.ts'

const text = readFileSync(new URL('../../../../contract/examples/examples.json', import.meta.url), 'utf8')
const examples = JSON.parse(text) as Record<string, { answer?: unknown }>
const now = Date.parse('2026-11-19T12:00:00.000Z')

test('replaces every kind of secret, wherever it stands', () => {
  const secrets = [newToken('organization', 'sandbox'), newWebhookSecret(), newLicenseKey(null)].map((secret) => secret.reveal())
  for (const secret of secrets) {
    const shown = JSON.stringify(openNormalizer(now)({ any: secret, list: [`https://example.com/?x=${secret}`] }, ''))
    expect(shown).not.toContain(secret)
    expect(shown).not.toContain(secret.slice(-12))
  }
  expect(openNormalizer(now)({ code: 'K7QX2M' }, '')).toEqual({ code: 'example' })
})

test('gives the same id the same replacement, and keeps the distance of times', () => {
  const [one, other] = ['0d9a7c1e-1111-4222-8333-123456789abc', '0d9a7c1e-1111-4222-8333-123456789abd']
  const shown = openNormalizer(now)({ id: one, again: [one, other], at: '2026-11-19T12:00:03.123Z', later: '2026-12-19T12:00:03.123Z' }, '') as {
    id: string
    again: string[]
  }
  expect(shown.again[0]).toBe(shown.id)
  expect(shown.again[1]).not.toBe(shown.id)
  expect(shown).toMatchObject({ at: '2026-05-04T09:30:00.000Z', later: '2026-06-03T09:30:00.000Z' })
})

test('shortens lists, and keeps a tax number', () => {
  expect(shorten({ items: [1, 2], tax_id: ['DE136695976', 'eu_vat'] })).toEqual({ items: [1], tax_id: ['DE136695976', 'eu_vat'] })
})

test('keeps all postings of a ledger, because they sum to the balances', () => {
  const entries = [
    { account: 'receivable', amount: 2900 },
    { account: 'revenue', amount: -2900 },
  ]
  const ledger = { items: [1, 2].map((reference_id) => ({ reference_id, entries })), balances: entries }
  expect(shorten(ledger)).toEqual(ledger)
})

test('the committed example of the ledger has postings that sum to zero', () => {
  const { answer } = examples['orders:ledger_entries'] as { answer: { items: { entries: { amount: number }[] }[]; balances: { amount: number }[] } }
  const sum = (amounts: { amount: number }[]) => amounts.reduce((total, { amount }) => total + amount, 0)
  expect(answer.items.length).toBeGreaterThan(1)
  expect(answer.balances.length).toBeGreaterThan(1)
  expect([...answer.items.map(({ entries }) => sum(entries)), sum(answer.balances)]).toEqual([...answer.items.map(() => 0), 0])
})

test('the committed examples contain no secret', () => {
  // The list of token patterns is itself an answer, so its patterns are taken out.
  const patterns = [...tokenPatterns.map(({ pattern }) => pattern), licenseKeyPattern, webhookSecretPattern]
  expect(text.match(new RegExp(patterns.join('|'), 'g'))).toBeNull()
})
