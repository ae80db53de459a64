import type { TaxIDFormat } from '@bursar/contract'
import { describe, expect, test } from 'vitest'
import { openRates, type TaxRate } from './rates.ts'
import { behaviorOf, none, taxCode, type PlacedQuestion } from './tax.ts'

const question = (country: string, state: string | null = null, given: Partial<PlacedQuestion> = {}): PlacedQuestion => ({
  organization_id: 'o',
  subject: 'checkout',
  currency: 'eur',
  lines: [{ reference: '1', amount: 1000, tax_code: taxCode }],
  address: { country, state },
  tax_id: null,
  behavior_option: 'location',
  ...given,
})
const business = (value: string, format: TaxIDFormat) => ({ tax_id: { value, format } })

const rate = (country: string, state: string | null, parts: number, reverse_charge = false): TaxRate => ({ country, state, rate: parts, reverse_charge })
const list = [
  rate('DE', null, 190_000, true),
  rate('GR', null, 240_000, true),
  rate('FR', null, 200_000),
  rate('CH', null, 81_000, true),
  rate('BR', null, 170_000, true),
  rate('CA', null, 50_000, true),
  rate('CA', 'CA-ON', 130_000),
  rate('US', 'US-NY', 88_750),
  rate('AE', null, 0),
]
const rates = openRates(async () => ({ seller_country: 'FR', rates: list }))

test.each([
  ['US', 'location', 'exclusive'],
  ['CA', 'location', 'exclusive'],
  ['IN', 'location', 'exclusive'],
  ['DE', 'location', 'inclusive'],
  ['JP', 'location', 'inclusive'],
  ['US', 'inclusive', 'inclusive'],
  ['DE', 'exclusive', 'exclusive'],
] as const)('prices for a buyer in %s with the tax behavior %s are %s of tax', (country, behavior_option, behavior) => {
  expect(behaviorOf(question(country, null, { behavior_option }))).toBe(behavior)
})

test('quotes zero tax with the reason not_collecting for a seller without a tax provider', async () => {
  expect(await none.quote(question('US', 'NY'))).toEqual({ rate: 0, behavior: 'exclusive', jurisdiction: 'US', reason: 'not_collecting' })
})

describe("the seller's own rates", () => {
  test.each([
    ['a country', 'DE', null, 190_000, 'DE', 'standard_rated'],
    ['a state', 'US', 'US-NY', 88_750, 'US-NY', 'standard_rated'],
    ['a state by its short code', 'US', ' ny ', 88_750, 'US-NY', 'standard_rated'],
    ['a state rate before the rate of its country', 'CA', 'ON', 130_000, 'CA-ON', 'standard_rated'],
    ['the country rate for a state without a rate', 'CA', 'CA-AB', 50_000, 'CA', 'standard_rated'],
    ['no rate for the state or its country', 'US', 'TX', 0, 'US-TX', 'not_collecting'],
    ['a state of a country without state taxes', 'DE', 'BY', 190_000, 'DE', 'standard_rated'],
    ['a country that is not listed', 'JP', null, 0, 'JP', 'not_collecting'],
    ['a country without tax', 'AE', null, 0, 'AE', 'not_subject_to_tax'],
  ])("quotes the seller's own rates: %s", async (_, country, state, parts, jurisdiction, reason) => {
    expect(await rates.quote(question(country, state))).toMatchObject({ rate: parts, jurisdiction, reason })
  })

  test.each([
    ['US', null],
    ['US', 'New Amsterdam'],
    ['US', 'US-ON'],
    ['CA', null],
    ['CA', 'NY'],
  ])('gives no quote for %s with the state %s, because another rate may apply there', async (country, state) => {
    expect(await rates.quote(question(country, state))).toBeNull()
  })

  test.each([
    ['a business abroad', 'DE', business('DE136695976', 'eu_vat'), 0, 'reverse_charge'],
    ['a business in Greece, whose VAT prefix is EL', 'GR', business('EL094259216', 'eu_vat'), 0, 'reverse_charge'],
    ['a business outside the EU', 'CH', business('CHE107787577IVA', 'ch_vat'), 0, 'reverse_charge'],
    ['a Brazilian business', 'BR', business('16727230000197', 'br_cnpj'), 0, 'reverse_charge'],
    ['a buyer without a tax number', 'DE', {}, 190_000, 'standard_rated'],
    ['a tax number of another country', 'DE', business('FR40303265045', 'eu_vat'), 190_000, 'standard_rated'],
    ['a tax number of a natural person', 'BR', business('39053344705', 'br_cpf'), 170_000, 'standard_rated'],
    ['a tax number that is not a VAT number', 'DE', business('18181508155', 'de_stn'), 190_000, 'standard_rated'],
    ["a business in the seller's own country", 'FR', business('FR40303265045', 'eu_vat'), 200_000, 'standard_rated'],
  ])('applies the reverse charge only to a foreign buyer with a business tax number of its country: %s', async (_, country, given, parts, reason) => {
    expect(await rates.quote(question(country, null, given))).toMatchObject({ rate: parts, reason })
  })

  test("applies no reverse charge if it is not allowed, within the seller's country, or without a seller country", async () => {
    const buyer = question('DE', null, business('DE136695976', 'eu_vat'))
    const quote = async (seller_country: string | null, allowed: boolean) =>
      (await openRates(async () => ({ seller_country, rates: [rate('DE', null, 190_000, allowed)] })).quote(buyer))!.reason
    expect(await quote('FR', true)).toBe('reverse_charge')
    expect([await quote('FR', false), await quote('DE', true), await quote(null, true)]).toEqual(['standard_rated', 'standard_rated', 'standard_rated'])
  })

  test("throws if the seller's rates cannot be read", async () => {
    const broken = openRates(async () => {
      throw new Error('gone')
    })
    await expect(broken.quote(question('DE'))).rejects.toThrow('gone')
  })
})
