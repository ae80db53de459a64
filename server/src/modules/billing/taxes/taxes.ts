import { invalidAt, InvalidRequest, readState, type Invalid, type TaxProviderName, type TaxSettings, type TaxSettingsUpdate } from '@bursar/contract'
import type { z } from 'zod'
import { openRates } from '../../../gateways/tax/rates.ts'
import { none, TaxUnavailable, type TaxProvider, type TaxQuestion, type TaxQuote } from '../../../gateways/tax/tax.ts'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { findRates, findSettings, listRates, putSettings, replaceRates, type TaxRateTable, type TaxSettingsTable } from './taxes.sql.ts'

type Update = z.output<typeof TaxSettingsUpdate>

const providers: Record<TaxProviderName, (db: Db) => TaxProvider> = {
  none: () => none,
  rates: (db) => openRates((organization_id, country) => findRates(db, organization_id, country)),
}

/**
 * Quotes the tax on a sale. Uses the given provider, or else the one in the seller's settings. Returns null while the
 * buyer's address is unknown. Throws if the tax cannot be determined, and never treats that as zero tax.
 */
export const quoteTax = async (db: Db, provider: TaxProvider | null, question: TaxQuestion): Promise<TaxQuote | null> => {
  const { address, organization_id } = question
  if (address === null) return null
  const asked = provider ?? providers[(await findSettings(db, organization_id))?.provider ?? 'none'](db)
  const quote = await asked.quote({ ...question, address })
  if (quote && !(Number.isSafeInteger(quote.rate) && quote.rate >= 0 && quote.rate <= 1_000_000))
    throw new TaxUnavailable(`a rate of ${quote.rate} parts per million was quoted`)
  return quote
}

/** Thrown if the seller collects tax, and the customer's address does not suffice to determine it. */
export class TaxUnknown extends Error {
  override readonly name = 'TaxUnknown'
}

/**
 * Quotes the tax for an off-session charge. If the seller collects tax and the tax is unknown, throws `TaxUnknown`
 * instead of returning null. Nothing is therefore billed without tax.
 */
export const needTax = async (db: Db, question: TaxQuestion): Promise<TaxQuote | null> => {
  const quote = await quoteTax(db, null, question)
  if (quote === null && ((await findSettings(db, question.organization_id))?.provider ?? 'none') !== 'none')
    throw new TaxUnknown('the tax cannot be computed from the address of the customer')
  return quote
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
export const updateTaxes = async (tx: Tx, scope: TenantScope, body: Update): Promise<TaxSettings> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'finance:manage')
  const problems = body.rates.flatMap((rate, at) => problemsOf(body.rates, rate, at))
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
