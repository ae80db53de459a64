import { invalidAt, InvalidRequest, readState, type Invalid, type TaxProviderName, type TaxSettings, type TaxSettingsUpdate } from '@bursar/contract'
import type { z } from 'zod'
import { openRates } from '../../../gateways/tax/rates.ts'
import {
  isLineQuote,
  none,
  taxCode,
  TaxUnavailable,
  type LineQuote,
  type ServiceQuestion,
  type TaxProvider,
  type TaxQuestion,
  type TaxQuote,
} from '../../../gateways/tax/tax.ts'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { QuoteNeeded, serviceQuote } from './asking.ts'
import { findRates, findSettings, listRates, putSettings, replaceRates, type TaxRateTable, type TaxSettingsTable } from './taxes.sql.ts'

type Update = z.output<typeof TaxSettingsUpdate>

const providers: Record<Exclude<TaxProviderName, 'service'>, (db: Db) => TaxProvider> = {
  none: () => none,
  rates: (db) => openRates((organization_id, country) => findRates(db, organization_id, country)),
}

/** A quote that the caller has stored, and the wall time at which it is used again. */
interface Known {
  readonly quote: TaxQuote | null
  readonly now: Date
}

/**
 * Quotes the tax on a sale. Uses the given provider, or else the one in the seller's settings. Returns null while the
 * buyer's address is unknown. Throws if the tax cannot be determined, and never treats that as zero tax. Throws
 * `QuoteNeeded` if the tax service must be asked first.
 */
export const quoteTax = async (db: Db & Pick<Tx, 'answers'>, provider: TaxProvider | null, question: TaxQuestion, known?: Known): Promise<TaxQuote | null> => {
  if (question.address === null) return null
  return quoteBy(db, provider ?? (await findSettings(db, question.organization_id))?.provider ?? 'none', question, known)
}

const quoteBy = async (
  db: Db & Pick<Tx, 'answers'>,
  provider: TaxProvider | TaxProviderName,
  question: TaxQuestion,
  known?: Known,
): Promise<TaxQuote | null> => {
  if (question.address === null) return null
  const placed = { ...question, address: question.address }
  if (provider === 'service') return serviceQuote(db.answers, placed, isKnownLines(known) ? known : undefined)
  const quote = await (typeof provider === 'string' ? providers[provider](db) : provider).quote(placed)
  if (quote && !(Number.isSafeInteger(quote.rate) && quote.rate >= 0 && quote.rate <= 1_000_000))
    throw new TaxUnavailable(`a rate of ${quote.rate} parts per million was quoted`)
  return quote
}

const isKnownLines = (known: Known | undefined): known is { quote: LineQuote; now: Date } => known !== undefined && isLineQuote(known.quote)

/** Returns the lines of a sale in the form of a tax question: the discounted amount of each line. */
export const taxableLines = (lines: readonly { readonly amount: number; readonly discount_amount: number }[]): TaxQuestion['lines'] =>
  lines.map(({ amount, discount_amount }, at) => ({ reference: String(at + 1), amount: amount - discount_amount, tax_code: taxCode }))

/** Thrown if the seller collects tax, and the customer's address does not suffice to determine it. */
export class TaxUnknown extends Error {
  override readonly name = 'TaxUnknown'
}

/**
 * Quotes the tax for an off-session charge. If the seller collects tax and the tax is unknown, throws `TaxUnknown`
 * instead of returning null. Nothing is therefore billed without tax.
 */
export const needTax = async (db: Db & Pick<Tx, 'answers'>, question: TaxQuestion): Promise<TaxQuote | null> => {
  const quote = await quoteTax(db, null, question)
  if (quote === null && ((await findSettings(db, question.organization_id))?.provider ?? 'none') !== 'none')
    throw new TaxUnknown('the tax cannot be computed from the address of the customer')
  return quote
}

/**
 * Quotes the tax for several off-session charges of one organization, in their sequence. Asks the tax service about all of
 * them at once. Returns undefined for a charge whose tax is unknown or unavailable. That charge must not be billed.
 */
export const quoteGroup = async (db: Db & Pick<Tx, 'answers'>, questions: readonly TaxQuestion[]): Promise<(TaxQuote | null | undefined)[]> => {
  if (questions.length === 0) return []
  const name = (await findSettings(db, questions[0]!.organization_id))?.provider ?? 'none'
  const quotes = new Map<string, TaxQuote | null | undefined>()
  const missing: ServiceQuestion[] = []
  for (const question of questions) {
    const key = keyOf(name, question)
    if (quotes.has(key)) continue
    try {
      const quote = await quoteBy(db, name, question)
      quotes.set(key, quote === null && name !== 'none' ? undefined : quote)
    } catch (error) {
      if (error instanceof QuoteNeeded) missing.push(...error.questions)
      else if (!(error instanceof TaxUnavailable)) throw error
      quotes.set(key, undefined)
    }
  }
  if (missing.length > 0) throw new QuoteNeeded(missing)
  return questions.map((question) => quotes.get(keyOf(name, question)))
}

/** Two questions with the same key have the same answer. Only a tax service answers by the lines of the sale and the whole address. */
const keyOf = (name: TaxProviderName, question: TaxQuestion): string => {
  const { currency, address, tax_id, behavior_option } = question
  return JSON.stringify(name === 'service' ? question : [currency, address?.country, address?.state, tax_id, behavior_option])
}

/** Returns the tax settings of one organization. By default no tax is collected. */
export const requireTaxes = async (db: Db, scope: TenantScope, wanted: string | undefined): Promise<TaxSettings> => {
  const ids = organizationIds(scope, wanted === undefined ? [] : [wanted])
  if (ids.length !== 1) {
    const problem = ids.length === 0 ? 'You do not belong to an organization with this id.' : 'You belong to several organizations. Give organization_id.'
    throw new InvalidRequest({ ...invalidAt(['query', 'organization_id'], problem, wanted), type: ids.length === 0 ? 'value_error' : 'missing' })
  }
  const organization_id = ids[0]!
  permit(scope, organization_id, 'finance:read')
  return present(organization_id, await findSettings(db, organization_id), await listRates(db, organization_id))
}

/**
 * Replaces all tax settings in one transaction. Each sale is therefore taxed either by the old list of rates or by the
 * new one.
 */
export const updateTaxes = async (tx: Tx, scope: TenantScope, { config }: Pick<Platform, 'config'>, body: Update): Promise<TaxSettings> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'finance:manage')
  const problems = body.rates.flatMap((rate, at) => problemsOf(body.rates, rate, at))
  if (body.provider === 'service' && config.tax === undefined)
    problems.push(invalidAt(['body', 'provider'], 'This deployment has no tax service. Choose none or rates.', body.provider))
  if (problems.length > 0) throw new InvalidRequest(problems)
  const settings = await putSettings(tx, { organization_id, modified_at: tx.clock.wall(), provider: body.provider })
  const rates = body.rates.map(({ country, state = null, rate, reverse_charge }) => ({
    organization_id,
    id: newId(tx.clock.wall()),
    country,
    state,
    rate: Math.round(Number(rate) * partsPerPercent),
    reverse_charge,
  }))
  await replaceRates(tx, settings, rates)
  return present(organization_id, settings, await listRates(tx, organization_id))
}

const problemsOf = (rates: Update['rates'], { country, state = null }: Update['rates'][number], at: number): Invalid[] => {
  const where = (field: string) => ['body', 'rates', at, field]
  if (state !== null && readState(country, state) !== state)
    return [invalidAt(where('state'), `${country} has no such state with its own taxes. Use the form US-CA or CA-ON, or leave it out.`, state)]
  if (rates.slice(0, at).some((earlier) => earlier.country === country && (earlier.state ?? null) === state))
    return [invalidAt(where(state === null ? 'country' : 'state'), 'The list already has a rate for this place.', state ?? country)]
  return []
}

/**
 * Parts per million in one percent. The finest rate that can be set, a ten-thousandth of a percent, is one part per
 * million.
 */
const partsPerPercent = 10_000

const present = (organization_id: string, settings: TaxSettingsTable | undefined, rates: readonly TaxRateTable[]): TaxSettings => ({
  organization_id,
  modified_at: settings?.modified_at ?? null,
  provider: settings?.provider ?? 'none',
  rates: rates.map(({ country, state, rate, reverse_charge }) => ({
    // Only countries of the API contract are ever stored.
    country: country as TaxSettings['rates'][number]['country'],
    state,
    rate: String(rate / partsPerPercent),
    reverse_charge,
  })),
})
