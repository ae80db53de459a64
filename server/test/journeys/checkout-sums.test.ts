import { exponentsOf } from '@bursar/contract'
import { render } from '@bursar/web'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { chargeable } from '../../src/kernel/money.ts'
import { anyTerms, checkoutOf, frameIn, type Terms } from '../harness/offers.ts'

// The amounts that the checkout page prints, read from its HTML and compared with the terms of the offer.
const textOf = (html: string): string =>
  html
    .replace(/<button.*?<\/button>/g, '')
    .replace(/<[^>]*>/g, '')
    .replaceAll('&amp;', '&')
    .replace(/\s/g, ' ')
    .trim()

/** Reads all amounts of money in a text, in minor units. */
const amountsIn = (text: string, { currency }: Terms, locale: 'en' | 'de'): number[] => {
  const { wire } = exponentsOf(currency)
  const sign = { usd: '\\$', eur: '€', jpy: '[¥￥]', huf: '(?:HUF|Ft)' }[currency]
  const number = String.raw`\d[\d.,]*\d|\d`
  const pattern = locale === 'en' ? `(-?)${sign} ?(${number})` : `(-?)(${number}) ${sign}`
  return [...text.matchAll(new RegExp(pattern, 'g'))].map(([, minus, digits = '']) => {
    const [units = '', decimals = ''] = locale === 'en' ? digits.replaceAll(',', '').split('.') : digits.replaceAll('.', '').split(',')
    return (minus === '-' ? -1 : 1) * Number(units + decimals.padEnd(wire, '0'))
  })
}

/** Reads the lines of the bill: the lines that add up, the amount due, and the lines about later payments. */
const billIn = (html: string) => {
  const bill = /<dl class="bill">(.*?)<\/dl>/s.exec(html)![1]!
  const lines = [...bill.matchAll(/<div(?: class="(\w+)")?><dt>(.*?)<\/dt><dd class="amount">(.*?)<\/dd><\/div>/gs)].map(([, kind, name = '', value = '']) => ({
    kind,
    name: textOf(name),
    value: textOf(value),
  }))
  const due = lines.findIndex(({ kind }) => kind === 'due')
  return { above: lines.slice(0, due).filter(({ kind }) => kind !== 'within'), due: lines[due]!, below: lines.slice(due + 1) }
}

const part = (html: string, id: string) => textOf(new RegExp(`id="${id}"[^>]*>(.*?)</(?:p|section|button)>`, 's').exec(html)![1]!)

test('prints a bill that adds up to the amount due, and the same amounts above and on the order button, for random offers', () => {
  fc.assert(
    fc.property(anyTerms, fc.constantFrom('en' as const, 'de' as const), (terms, locale) => {
      const view = checkoutOf(terms)
      const html = render(view, frameIn(locale))
      const read = (text: string) => amountsIn(text, terms, locale)
      const { above, due, below } = billIn(html)

      // The amount due, computed from the terms without the calculators' total.
      const { amount, discount_amount, tax_amount, trial_end } = view.offer
      expect(amount).toBe(terms.price * (terms.seats ?? 1))
      const total = amount - discount_amount + (terms.behavior === 'exclusive' ? (tax_amount ?? 0) : 0)
      const today = trial_end === null && total >= chargeable(terms.currency).minimum ? total : 0

      expect(read(due.value)).toEqual([today])
      const printed = above.flatMap(({ value }) => read(value))
      expect(printed.reduce((sum, one) => sum + one, 0)).toBe(today)
      // A discount is printed as one line, and every line above prints one amount unless the tax is unknown.
      expect(printed.length).toBe(above.length - (above.some(({ value }) => /country|Land/.test(value)) ? 1 : 0))
      if (terms.discount) expect(printed).toContain(-discount_amount)

      expect(read(part(html, 'total'))[0]).toBe(today)
      const later = below.flatMap(({ name, value }) => (name === 'Requests' ? [] : read(value)))
      expect(later).toEqual(view.schedule.later.map((one) => one.amount))
      // The sentence that the buyer agrees to names the amount due today and every later amount.
      const agreed = /<p class="soft">((?:You agree to pay|Sie zahlen) .*?)<\/p>/.exec(html)?.[1]
      if (later.length > 0) expect(read(textOf(agreed!))).toEqual([...(today > 0 ? [today] : []), ...later])
      const button = part(html, 'price-to-pay')
      expect(read(button)).toEqual(trial_end === null && total > 0 ? [total] : later.slice(0, 1))
      const isFree = total === 0 && later.length === 0
      const words = { en: ['Order and pay', 'Order for free'], de: ['Zahlungspflichtig', 'Kostenlos'] }[locale]
      expect(button.startsWith(words[isFree && !view.offer.product!.prices.some(({ amount_type }) => amount_type === 'metered_unit') ? 1 : 0]!)).toBe(true)
    }),
    { numRuns: 1_000, seed: Number(process.env.BURSAR_TEST_SEED ?? 32) },
  )
})
