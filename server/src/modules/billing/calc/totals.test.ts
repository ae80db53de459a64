import { currencies } from '@bursar/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { chargeable, stepOf, sum, toProcessor } from '../../../kernel/money.ts'
import type { Reduction } from './discounts.ts'
import type { QuotedTax, RateTax, Tax } from './taxes.ts'
import { refundable, totalsOf, type Bill } from './totals.ts'

interface Line {
  amount: number
  proration: boolean
}
const bill = (given: Partial<Bill<Line>>): Bill<Line> => ({ currency: 'usd', lines: [], discount: null, tax: null, credit: 0, debt: 0, ...given })
const lines = (...amounts: number[]) => amounts.map((amount) => ({ amount, proration: false }))

describe('totalsOf', () => {
  test('adds exclusive tax after a discount', () => {
    const tax: Tax = { rate: 200_000, behavior: 'exclusive' }
    expect(totalsOf(bill({ lines: lines(1000, 501), discount: { type: 'percentage', basis_points: 1000 }, tax }))).toEqual({
      lines: [
        { amount: 1000, proration: false, discount_amount: 100, net_amount: 900, tax_amount: 180, total_amount: 1080 },
        { amount: 501, proration: false, discount_amount: 50, net_amount: 451, tax_amount: 90, total_amount: 541 },
      ],
      subtotal_amount: 1501,
      discount_amount: 150,
      net_amount: 1351,
      tax_amount: 270,
      total_amount: 1621,
      applied_balance_amount: 0,
      due_amount: 1621,
      charge_amount: 1621,
      carried_amount: 0,
      balance_movement_amount: 0,
    })
  })

  test('includes inclusive tax in the price', () => {
    const tax: Tax = { rate: 190_000, behavior: 'inclusive' }
    expect(totalsOf(bill({ currency: 'eur', lines: lines(1000), tax }))).toMatchObject({
      net_amount: 840,
      tax_amount: 160,
      total_amount: 1000,
      due_amount: 1000,
    })
  })

  const figures = ['total_amount', 'applied_balance_amount', 'due_amount', 'charge_amount', 'carried_amount', 'balance_movement_amount'] as const
  test.each<[string, Partial<Bill<Line>>, number[]]>([
    ['that credit pays in part', { lines: lines(1000), credit: 400 }, [1000, -400, 600, 600, 0, -400]],
    ['that credit pays in full', { lines: lines(1000), credit: 1500 }, [1000, -1000, 0, 0, 0, -1000]],
    ['that credit pays up to less than the minimum charge', { lines: lines(1000), credit: 970 }, [1000, -970, 30, 0, 30, -970]],
    ['that collects a debt', { lines: lines(1000), debt: 300 }, [1000, 300, 1300, 1300, 0, 300]],
    ['of zero, with a debt', { lines: lines(0), debt: 300 }, [0, 300, 300, 300, 0, 300]],
    ['of zero, with a debt below the minimum charge', { lines: lines(0), debt: 30 }, [0, 30, 30, 0, 30, 30]],
    ['of zero', { lines: lines(0) }, [0, 0, 0, 0, 0, 0]],
    ['without lines', {}, [0, 0, 0, 0, 0, 0]],
    ['with a negative total', { lines: lines(-1000) }, [-1000, 0, 0, 0, 0, 1000]],
    ['with a negative total, for a customer with credit', { lines: lines(-1000), credit: 200 }, [-1000, 0, 0, 0, 0, 1000]],
    ['with a negative total that pays off a debt', { lines: lines(-1000), debt: 300 }, [-1000, 300, 0, 0, 0, 1000]],
    ['with a negative total that pays off part of a debt', { lines: lines(-200), debt: 300 }, [-200, 200, 0, 0, 0, 200]],
    ['just below the minimum charge', { lines: lines(49) }, [49, 0, 49, 0, 49, 0]],
    ['of exactly the minimum charge', { lines: lines(50) }, [50, 0, 50, 50, 0, 0]],
    ['in yen, below the minimum charge', { currency: 'jpy', lines: lines(79) }, [79, 0, 79, 0, 79, 0]],
    ['in yen, of exactly the minimum charge', { currency: 'jpy', lines: lines(80) }, [80, 0, 80, 80, 0, 0]],
    ['in ariary, above the minimum charge', { currency: 'mga', lines: lines(3001) }, [3001, 0, 3001, 3001, 0, 0]],
    ['in krónur, of a price that is not in whole krónur', { currency: 'isk', lines: lines(8680) }, [8680, 0, 8680, 8600, 80, 0]],
    ['in krónur, below the minimum charge after rounding down', { currency: 'isk', lines: lines(6999) }, [6999, 0, 6999, 0, 6999, 0]],
    ['in krónur, with tax', { currency: 'isk', lines: lines(7000), tax: { rate: 240_000, behavior: 'exclusive' } }, [8700, 0, 8700, 8700, 0, 0]],
    ['in shillings, of a price that is not in whole shillings', { currency: 'ugx', lines: lines(200_050) }, [200_050, 0, 200_050, 200_000, 50, 0]],
  ])('settles an order %s', (_, given, expected) => {
    const totals = totalsOf(bill(given))
    expect(figures.map((figure) => totals[figure])).toEqual(expected)
  })

  test.each([
    [100, 100],
    [-1, 0],
    [0, -1],
  ])('rejects a balance of credit %i and debt %i', (credit, debt) => expect(() => totalsOf(bill({ credit, debt }))).toThrow(RangeError))
})

describe('refundable', () => {
  const order = { net_amount: 1000, tax_amount: 200, applied_balance_amount: 0, carried_amount: 0, refunded_amount: 0, refunded_tax_amount: 0 }
  test.each([
    ['all amounts of a paid order', {}, 1000, 200],
    ['the remaining amount', { refunded_amount: 400, refunded_tax_amount: 80 }, 600, 120],
    ['the part that credit did not pay', { applied_balance_amount: -300 }, 700, 200],
    ['also a debt that the order paid', { applied_balance_amount: 300 }, 1300, 200],
    ['no net amount if credit paid the order', { applied_balance_amount: -1200 }, 0, 200],
    ['no net amount if the amount was carried over', { net_amount: 25, tax_amount: 5, carried_amount: 30 }, 0, 5],
    ['no more than was paid if rounding made the tax negative', { tax_amount: -1 }, 999, 0],
    ['nothing for an order with a negative total', { net_amount: -1000, tax_amount: -200 }, 0, 0],
  ])('returns the refundable amounts: %s', (_, given, refundable_amount, refundable_tax_amount) =>
    expect(refundable({ ...order, ...given })).toEqual({ refundable_amount, refundable_tax_amount }),
  )
})

describe('totals of a tax that was quoted per line', () => {
  const share = (jurisdiction: string, rate: number, tax_amount: number) => ({ jurisdiction, rate, tax_amount, reason: 'standard_rated' as const })
  const quoted = (behavior: QuotedTax['behavior']): QuotedTax => ({
    behavior,
    lines: [
      { amount: 900, taxes: [share('US-CA', 60_000, 54), share('US-CA-LA', 10_000, 9)] },
      { amount: -200, taxes: [share('US-CA', 60_000, -12)] },
    ],
  })
  const given = {
    lines: [
      { amount: 1000, proration: false },
      { amount: -200, proration: true },
    ],
    discount: { type: 'percentage' as const, basis_points: 1000 },
  }

  test.each([
    ['exclusive', [900, -200], [963, -212]],
    ['inclusive', [837, -188], [900, -200]],
  ] as const)('adds up the quoted taxes of each line: %s', (behavior, net, total) => {
    const totals = totalsOf(bill({ ...given, tax: quoted(behavior) }))
    expect(totals.lines.map(({ tax_amount }) => tax_amount)).toEqual([63, -12])
    expect(totals.lines.map(({ net_amount }) => net_amount)).toEqual(net)
    expect(totals.lines.map(({ total_amount }) => total_amount)).toEqual(total)
    expect(totals).toMatchObject({ tax_amount: 51, total_amount: sum(total) })
    expect(totals.lines.map(({ taxes }) => taxes)).toEqual(quoted(behavior).lines.map(({ taxes }) => taxes))
  })

  test.each([
    ['another amount', { lines: [{ amount: 1001, proration: false }, given.lines[1]!] }],
    ['another discount', { discount: null }],
    ['fewer lines', { lines: [given.lines[0]!] }],
  ])('rejects a tax that was quoted for %s', (_, other) => {
    expect(() => totalsOf(bill({ ...given, tax: quoted('exclusive'), ...other }))).toThrow('The tax was quoted for other lines.')
  })
})

describe('invariants of orders in any currency', () => {
  const reduction: fc.Arbitrary<Reduction | null> = fc.oneof(
    fc.constant(null),
    fc.integer({ min: 1, max: 10_000 }).map((basis_points) => ({ type: 'percentage' as const, basis_points })),
    fc.tuple(fc.constantFrom(...currencies), fc.integer({ min: 0, max: 3_000_000 })).map(([currency, amount]) => ({
      type: 'fixed' as const,
      amounts: { [currency]: amount, usd: amount },
    })),
  )
  const tax: fc.Arbitrary<RateTax | null> = fc.option(
    fc.record({ rate: fc.integer({ min: 0, max: 300_000 }), behavior: fc.constantFrom('inclusive' as const, 'exclusive' as const) }),
  )
  const balance = fc.integer({ min: -2_000_000, max: 2_000_000 })
  const someLines = fc.array(
    fc.record({ amount: fc.oneof(fc.integer({ min: -5_000_000, max: 9_000_000 }), fc.integer({ min: -200, max: 200 })), proration: fc.boolean() }),
    { maxLength: 6 },
  )
  const anyBill = fc.record({ currency: fc.constantFrom(...currencies), lines: someLines, discount: reduction, tax, balance })

  test('hold for every order', () => {
    fc.assert(
      fc.property(anyBill, ({ balance, ...given }) => {
        const [credit, debt] = [Math.max(0, balance), Math.max(0, 0 - balance)]
        const { currency, lines, discount, tax } = given
        const totals = totalsOf({ ...given, credit, debt })
        const inclusive = tax?.behavior === 'inclusive'

        // Amounts of the order.
        const { subtotal_amount, discount_amount, net_amount, tax_amount, total_amount, applied_balance_amount, due_amount } = totals
        expect(subtotal_amount).toBe(sum(lines.map(({ amount }) => amount)))
        expect(net_amount).toBe(subtotal_amount - discount_amount - (inclusive ? tax_amount : 0))
        expect(total_amount).toBe(net_amount + tax_amount)
        expect(applied_balance_amount).toBe(total_amount < 0 ? Math.min(0 - total_amount, debt) : debt > 0 ? debt : 0 - Math.min(total_amount, credit))
        expect(due_amount).toBe(Math.max(0, total_amount + applied_balance_amount))
        expect(totals.balance_movement_amount).toBe(total_amount >= 0 ? applied_balance_amount : 0 - total_amount)

        // Amounts of its lines.
        for (const figure of ['discount_amount', 'net_amount', 'tax_amount', 'total_amount'] as const)
          expect([figure, sum(totals.lines.map((line) => line[figure]))]).toEqual([figure, totals[figure]])
        for (const line of totals.lines) {
          const taxable = line.amount - line.discount_amount
          expect(line.net_amount).toBe(taxable - (inclusive ? line.tax_amount : 0))
          expect(line.total_amount).toBe(line.net_amount + line.tax_amount)
          expect([0, Math.sign(taxable)]).toContain(Math.sign(line.tax_amount))
          const exact = tax === null ? 0 : (taxable * tax.rate) / (1_000_000 + (inclusive ? tax.rate : 0))
          expect(Math.abs(line.tax_amount - exact)).toBeLessThanOrEqual((inclusive ? 1 : stepOf(currency)) / 2 + 1e-6)
        }

        // The discount applies only to lines that are no prorations.
        const price = Math.max(0, sum(lines.map(({ amount, proration }) => (proration ? 0 : amount))))
        expect(discount_amount).toBeGreaterThanOrEqual(0)
        expect(discount_amount).toBeLessThanOrEqual(price)
        if (discount?.type === 'fixed') expect(discount_amount).toBe(Math.min(price, (discount.amounts as Record<string, number>)[currency] ?? 0))
        expect(totals.lines.filter((line) => line.proration && line.discount_amount !== 0)).toEqual([])

        // The charge is payable, and the unpayable rest is carried as debt.
        expect(totals.charge_amount + totals.carried_amount).toBe(due_amount)
        expect(toProcessor(totals.charge_amount, currency)).toBe(totals.charge_amount)
        expect(totals.charge_amount === 0 || totals.charge_amount >= chargeable(currency).minimum).toBe(true)
        expect(totals.carried_amount).toBeLessThan(Math.max(chargeable(currency).minimum, 1) + stepOf(currency))
        const after = credit - debt + totals.balance_movement_amount - totals.carried_amount
        expect(totals.charge_amount + (credit - debt - after)).toBe(total_amount)

        // No refund exceeds the charge.
        const rest = refundable({ ...totals, refunded_amount: 0, refunded_tax_amount: 0 })
        if (rest.refundable_amount > 0) expect(rest.refundable_amount + rest.refundable_tax_amount).toBe(totals.charge_amount)
      }),
      { numRuns: 10_000 },
    )
  })

  test('hold for payable inputs: the due amount is payable too', () => {
    fc.assert(
      fc.property(anyBill, ({ balance, currency, ...given }) => {
        const step = stepOf(currency)
        const discount: Reduction | null = given.discount?.type === 'fixed' ? { type: 'fixed', amounts: { [currency]: 700 * step } } : given.discount
        const whole = given.lines.map(({ amount, proration }) => ({ amount: amount * step, proration }))
        const totals = totalsOf({
          currency,
          lines: whole,
          discount,
          tax: given.tax,
          credit: Math.max(0, balance) * step,
          debt: Math.max(0, 0 - balance) * step,
        })
        expect(totals.due_amount % step).toBe(0)
        expect(totals.carried_amount).toBe(totals.due_amount < chargeable(currency).minimum ? totals.due_amount : 0)
      }),
      { numRuns: 2_000 },
    )
  })
})
