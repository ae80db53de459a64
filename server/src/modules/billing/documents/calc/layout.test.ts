import { writeLabel, type LabelParts } from '@bursar/views'
import { expect, test } from 'vitest'
import type { Facts, Line } from './facts.ts'
import { sheetOf } from './layout.ts'

const line = (parts: LabelParts, amount: number): Line => ({
  label: writeLabel(parts),
  amount,
  discount_amount: 0,
  net_amount: amount,
  tax_amount: 0,
  proration: parts.type === 'remaining' || parts.type === 'taken_back',
  tiers: parts.type === 'usage' ? null : { seat_tier_type: 'volume', tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 500 }] },
  tax: null,
})
const order = {
  invoice_number: 'A-1',
  receipt_number: null,
  created_at: '2026-11-01T00:00:00Z',
  period: null,
  description: 'Team',
  currency: 'eur',
  subtotal_amount: 0,
  discount_amount: 0,
  net_amount: 0,
  tax_amount: 0,
  total_amount: 0,
  applied_balance_amount: 0,
  carried_amount: 0,
  due_amount: 0,
  tax_behavior: null,
  discount_name: null,
}
const facts = (language: Facts['language'], lines: readonly Line[]): Facts => ({
  kind: 'invoice',
  language,
  seller: { name: 'Acme', address: null, tax_id: null, email: null, footer: null },
  buyer: { name: 'Eva', address: null, tax_id: null, tax_id_format: null },
  order,
  lines,
  payment: null,
  refunds: [],
})

test('translates the labels of the lines, and shows seats as the quantity', () => {
  const remaining = { type: 'remaining', name: 'Team', seats: 3 } as const
  const days = { from: '2026-10-01', to: '2026-11-01' }
  const lines = [
    line({ type: 'product', name: 'Team', seats: 1 }, 500),
    line(remaining, -500),
    line({ type: 'taken_back', credit: remaining }, 500),
    line({ type: 'usage', meter: 'Aufrufe', quantity: '1200', credited: '0', corrects: null, rate: '0.02', currency: 'EUR', ...days }, 2400),
  ]
  const shown = (language: Facts['language']) => sheetOf(facts(language, lines), null).lines.rows.map(({ cells }) => cells.slice(0, 2))
  expect(shown('de')).toEqual([
    ['Team', '1 Platz'],
    ['Gutschrift für die Restlaufzeit von Team', '3 Plätze'],
    ['Zurückgenommen: Gutschrift für die Restlaufzeit von Team (3 Plätze)', '1'],
    ['Aufrufe: 1.200 Einheiten zu je 0,02 EUR, 01.10.2026 bis 01.11.2026', '1'],
  ])
  expect(shown('en')[1]).toEqual(['Credit for the remaining time on Team', '3 seats'])
})
