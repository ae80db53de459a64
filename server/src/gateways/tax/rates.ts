import { readState } from '@bursar/contract'
import { behaviorOf, type PlacedQuestion, type RateQuote, type TaxProvider } from './tax.ts'

export interface TaxRate {
  readonly country: string
  /** Null: the whole country. */
  readonly state: string | null
  /** Parts per million. */
  readonly rate: number
  /** True if business buyers in this country account for the tax themselves (reverse charge). */
  readonly reverse_charge: boolean
}

/** Returns the seller's tax rates for a country, and the country of the seller. */
export type FindRates = (organization_id: string, country: string) => Promise<{ readonly seller_country: string | null; readonly rates: readonly TaxRate[] }>

/**
 * Quotes tax from the seller's own list. The rate of a state overrides the rate of its country. If a country has rates
 * per state and the buyer's state is unknown, there is no quote.
 */
export const openRates = (find: FindRates): TaxProvider => ({
  quote: async (question) => {
    const { country } = question.address
    const { seller_country, rates } = await find(question.organization_id, country)
    const state = readState(country, question.address.state)
    const here = rates.filter((rate) => rate.country === country)
    if (state === null && here.some((rate) => rate.state !== null)) return null
    const found = here.find((rate) => rate.state === state) ?? here.find((rate) => rate.state === null)
    const quoted = (jurisdiction: string, rate: number, reason: RateQuote['reason']): RateQuote => ({
      rate,
      behavior: behaviorOf(question),
      jurisdiction,
      reason,
    })
    if (!found) return quoted(state ?? country, 0, 'not_collecting')
    const jurisdiction = found.state ?? country
    const abroad = seller_country !== null && seller_country !== country
    if (found.reverse_charge && abroad && isBusiness(question)) return quoted(jurisdiction, 0, 'reverse_charge')
    return found.rate === 0 ? quoted(jurisdiction, 0, 'not_subject_to_tax') : quoted(jurisdiction, found.rate, 'standard_rated')
  },
})

const union = 'AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IT LT LU LV MT NL PL PT RO SE SI SK'.split(' ')

/** Formats of tax ids that do not identify a business: individuals have them too, or they concern a provincial tax. */
const notOfBusinesses: readonly string[] = ['br_cpf', 'ca_pst_bc', 'ca_pst_mb', 'ca_pst_sk', 'ca_qst']

/**
 * True if the buyer has a tax number that identifies businesses of its country. In the European Union that is the VAT
 * number, which starts with the country code.
 */
const isBusiness = ({ address: { country }, tax_id }: PlacedQuestion): boolean => {
  if (!tax_id) return false
  if (union.includes(country)) return tax_id.format === 'eu_vat' && tax_id.value.startsWith(country === 'GR' ? 'EL' : country)
  return tax_id.format.startsWith(`${country.toLowerCase()}_`) && !notOfBusinesses.includes(tax_id.format)
}
