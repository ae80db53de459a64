import { describe, expect, test } from 'vitest'
import { scheduleOf, type Purchase } from './schedule.ts'

const now = new Date('2026-01-31T09:00:00Z')
const bought: Purchase = {
  amount: 4000,
  discount_amount: 0,
  net_amount: 4000,
  tax_amount: 0,
  tax_behavior: 'exclusive',
  total_amount: 4000,
  is_payment_required: true,
  interval: 'month',
  interval_count: 1,
  discount: null,
  trial_end: null,
}
const half = { discount_amount: 2000, net_amount: 2000, total_amount: 2000 }
const once = { duration: 'once', duration_in_months: null } as const
const thrice = { duration: 'repeating', duration_in_months: 3 } as const
const forever = { duration: 'forever', duration_in_months: null } as const

describe('scheduleOf', () => {
  test.each<[string, Partial<Purchase>, number, string[]]>([
    ['a one-time purchase', { interval: null }, 4000, []],
    ['monthly, on the last day of a short month', {}, 4000, ['4000 from 2026-02-28']],
    ['every second week', { interval: 'week', interval_count: 2 }, 4000, ['4000 from 2026-02-14']],
    ['a known tax is included in both amounts', { tax_amount: 760, total_amount: 4760 }, 4760, ['4760 from 2026-02-28']],
    ['an unknown tax is shown as plus tax', { tax_amount: null }, 4000, ['4000 plus tax from 2026-02-28']],
    ['with a trial: zero today', { trial_end: new Date('2026-02-14T09:00:00Z') }, 0, ['4000 from 2026-02-14']],
    ['half price once', { ...half, discount: once }, 2000, ['4000 from 2026-02-28']],
    ['half price once, with exclusive tax', { ...half, discount: once, tax_amount: 380, total_amount: 2380 }, 2380, ['4000 plus tax from 2026-02-28']],
    ['half price once, with inclusive tax', { ...half, discount: once, tax_amount: 319, tax_behavior: 'inclusive' }, 2000, ['4000 from 2026-02-28']],
    [
      'free once, without a calculated tax',
      { discount_amount: 4000, net_amount: 0, total_amount: 0, discount: once, is_payment_required: false },
      0,
      ['4000 plus tax from 2026-02-28'],
    ],
    ['half price for three months', { ...half, discount: thrice }, 2000, ['2000 from 2026-02-28', '4000 from 2026-04-30']],
    ['half price for three months, billed yearly', { ...half, discount: thrice, interval: 'year' }, 2000, ['4000 from 2027-01-31']],
    ['half price forever', { ...half, discount: forever }, 2000, ['2000 from 2026-02-28']],
    [
      'half price once after a trial: for the first paid period',
      { ...half, discount: once, trial_end: new Date('2026-02-14T09:00:00Z') },
      0,
      ['2000 from 2026-02-14', '4000 from 2026-03-14'],
    ],
    ['a discount of zero changes no amount', { discount: once }, 4000, ['4000 from 2026-02-28']],
    ['free', { amount: 0, net_amount: 0, total_amount: 0, is_payment_required: false }, 0, []],
  ])('shows the amounts due today and later: %s', (_, given, today, then) => {
    const schedule = scheduleOf({ ...bought, ...given }, now)
    expect(schedule.today).toBe(today)
    expect(schedule.later.map(({ amount, plus_tax, from }) => `${amount}${plus_tax ? ' plus tax' : ''} from ${from.toISOString().slice(0, 10)}`)).toEqual(then)
  })
})
