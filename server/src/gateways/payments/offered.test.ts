import { describe, expect, test } from 'vitest'
import { leavesPage, offeredTypes, setsUpAnother } from './offered.ts'

const stay = ['card', 'link', 'sepa_debit']

describe('offeredTypes', () => {
  test.each([
    ['eur', 'NL', false, ['ideal', 'paypal']],
    ['eur', 'BE', false, ['bancontact', 'paypal']],
    ['eur', 'PL', false, ['p24', 'paypal']],
    ['pln', 'PL', false, ['p24', 'paypal']],
    ['eur', 'DE', false, ['paypal']],
    ['eur', null, false, ['paypal']],
    ['usd', 'NL', false, ['paypal']],
    ['jpy', 'JP', false, []],
    ['eur', 'NL', true, ['ideal']],
    ['eur', 'BE', true, ['bancontact']],
    ['eur', 'PL', true, []],
    ['usd', 'US', true, []],
  ] as const)('offers for %s in %s, charged again later: %s, besides the methods of the page: %j', (currency, country, reusable, more) => {
    expect(offeredTypes({ currency, country, reusable })).toEqual([...stay, ...more])
  })
})

test('knows which methods leave the page, and which set up another method', () => {
  expect(['ideal', 'bancontact', 'p24', 'paypal'].map(leavesPage)).toEqual([true, true, true, true])
  expect(['ideal', 'bancontact', 'p24', 'paypal'].map(setsUpAnother)).toEqual([true, true, false, false])
  // Names of the prototype are no payment methods.
  expect([...stay, 'constructor', ''].some(leavesPage)).toBe(false)
  expect(setsUpAnother('toString')).toBe(false)
})
