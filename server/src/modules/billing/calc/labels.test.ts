import { readLabel, showLabel, writeLabel, type LabelParts } from '@bursar/views'
import { describe, expect, test } from 'vitest'
import { usageLabel } from './metered.ts'

const usage = { type: 'usage', meter: 'Calls', quantity: '12500', credited: '0', corrects: null, rate: '0.004', currency: 'USD' } as const
const dated = { from: '2026-10-01', to: '2026-11-01' }
const remaining = { type: 'remaining', name: 'Team', seats: 3 } as const

const lowered = { type: 'lowered_usage', meter: 'Calls: fast', ...dated } as const

/** Every form of label. A new form without an example does not compile. */
const examples: { readonly [T in LabelParts['type']]: readonly [Extract<LabelParts, { type: T }>, amount: number, english: string, german: string][] } = {
  product: [
    [{ type: 'product', name: 'Field guide', seats: null }, 100, 'Field guide', 'Field guide'],
    [{ type: 'product', name: 'Team', seats: 1 }, 100, 'Team (1 seat)', 'Team (1 Platz)'],
    [{ type: 'product', name: 'Team', seats: 3 }, 100, 'Team (3 seats)', 'Team (3 Plätze)'],
    [{ type: 'product', name: 'Team: large (2 seats)', seats: 3 }, 100, 'Team: large (2 seats) (3 seats)', 'Team: large (2 seats) (3 Plätze)'],
    [{ type: 'product', name: 'Two\nlines', seats: 2 }, 100, 'Two\nlines (2 seats)', 'Two\nlines (2 Plätze)'],
  ],
  trial: [
    [{ type: 'trial', name: 'Team', interval: null, count: 0 }, 0, 'Team: trial', 'Team: Testphase'],
    [{ type: 'trial', name: 'Team', interval: 'day', count: 1 }, 0, 'Team: trial of 1 day', 'Team: Testphase von 1 Tag'],
    [{ type: 'trial', name: 'Team: large', interval: 'month', count: 3 }, 0, 'Team: large: trial of 3 months', 'Team: large: Testphase von 3 Monaten'],
  ],
  remaining: [
    [remaining, -100, 'Remaining time on Team (3 seats)', 'Gutschrift für die Restlaufzeit von Team (3 Plätze)'],
    [{ type: 'remaining', name: 'Basic', seats: null }, -100, 'Remaining time on Basic', 'Gutschrift für die Restlaufzeit von Basic'],
  ],
  lowered_usage: [[lowered, -100, 'Calls: fast, 2026-10-01 to 2026-11-01', 'Calls: fast, 01.10.2026 bis 01.11.2026']],
  taken_back: [
    [
      { type: 'taken_back', credit: lowered },
      100,
      'Credit taken back: Calls: fast, 2026-10-01 to 2026-11-01',
      'Zurückgenommen: Calls: fast, 01.10.2026 bis 01.11.2026',
    ],
    [
      { type: 'taken_back', credit: remaining },
      100,
      'Credit taken back: Remaining time on Team (3 seats)',
      'Zurückgenommen: Gutschrift für die Restlaufzeit von Team (3 Plätze)',
    ],
  ],
  restored: [
    [
      { type: 'restored', credit: remaining },
      -100,
      'Credit restored: Remaining time on Team (3 seats)',
      'Wiederhergestellt: Gutschrift für die Restlaufzeit von Team (3 Plätze)',
    ],
  ],
  usage: [
    [
      { ...usage, ...dated },
      5000,
      'Calls: 12500 units at 0.004 USD, 2026-10-01 to 2026-11-01',
      'Calls: 12.500 Einheiten zu je 0,004 USD, 01.10.2026 bis 01.11.2026',
    ],
    [
      { ...usage, ...dated, meter: 'Calls: fast', quantity: '1', credited: '0.5' },
      1,
      'Calls: fast: 1 units (0.5 credited) at 0.004 USD, 2026-10-01 to 2026-11-01',
      'Calls: fast: 1 Einheit (davon 0,5 inklusive) zu je 0,004 USD, 01.10.2026 bis 01.11.2026',
    ],
    [
      { ...usage, ...dated, quantity: '-0.5', corrects: '1200.25' },
      -5,
      'Calls: corrected from 1200.25 to -0.5 units at 0.004 USD, 2026-10-01 to 2026-11-01',
      'Calls: korrigiert von 1.200,25 auf -0,5 Einheiten zu je 0,004 USD, 01.10.2026 bis 01.11.2026',
    ],
  ],
}

const isProration = ({ type }: LabelParts) => type === 'remaining' || type === 'lowered_usage' || type === 'taken_back' || type === 'restored'

describe.each(Object.entries(examples))('labels of the form %s', (_, given) => {
  test.each<[LabelParts, number, string, string]>([...given])(
    'are stored in English, read again, and shown in German: %j',
    (parts, amount, english, german) => {
      const line = { label: writeLabel(parts), amount, proration: isProration(parts) }
      expect(line.label).toBe(english)
      expect(readLabel(line, true)).toEqual(parts)
      expect(showLabel('de', line, 3)).toBe(german)
      expect(showLabel('en', line, 3)).toBe(english)
    },
  )
})

test.each([
  ['seats in the name of a product without seats', { label: 'Course (3 seats)', amount: 100, proration: false }],
  ['seats that billing does not write', { label: 'Team (1 seats)', amount: 100, proration: false }, 1],
  ['a name like a credit', { label: 'Remaining time on Earth', amount: 100, proration: false }],
  ['a charge whose name is like a credit', { label: 'Remaining time on Earth', amount: 100, proration: true }],
  ['a paid product whose name is like a trial', { label: 'Law: trial', amount: 100, proration: false }],
  ['a name like usage in a month that does not exist', { label: 'Flat: 3 units at 0.5 USD, 2026-13-01 to 2026-14-01', amount: 100, proration: false }],
  ['a name like usage until a day that does not exist', { label: 'Flat: 3 units at 0.5 USD, 2026-02-01 to 2026-02-30', amount: 100, proration: false }],
  ['a credit whose name is like lowered usage on days that do not exist', { label: 'Flat, 2026-00-10 to 2026-01-99', amount: -100, proration: true }],
  ['a name like usage without its price', { label: 'Flat: 3 units', amount: 100, proration: false }],
] as const)('leaves a product name as it is: %s', (_, line, seats: number | null = null) => {
  expect(readLabel(line, seats !== null)).toEqual({ type: 'product', name: line.label, seats: null })
  expect(showLabel('de', line, seats)).toBe(line.label)
})

test('reads the label of usage of an average, with four decimal places', () => {
  const label = usageLabel({
    meter: 'Load',
    is_average: true,
    quantity: '1.23456789',
    credited: '0.5',
    corrects: null,
    unit_amount: '0.4',
    currency: 'usd',
    starts_at: new Date('2026-10-01T00:00:00Z'),
    ends_at: new Date('2026-11-01T00:00:00Z'),
  })
  expect(label).toBe('Load: 1.2346 units (0.5 credited) at 0.004 USD, 2026-10-01 to 2026-11-01')
  expect(readLabel({ label, amount: 1, proration: false }, false)).toMatchObject({ type: 'usage', meter: 'Load', quantity: '1.2346', credited: '0.5' })
})
