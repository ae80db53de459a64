import type { TaxProviderName } from '@bursar/contract'
import { sql } from 'kysely'
import { writeRow } from '../../../platform/postgres/locks.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

export interface TaxSettingsTable {
  organization_id: string
  modified_at: Date
  provider: TaxProviderName
}

export interface TaxRateTable {
  organization_id: string
  id: string
  country: string
  state: string | null
  rate: number
  reverse_charge: boolean
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    tax_settings: TaxSettingsTable
    tax_rates: TaxRateTable
  }
}

export const findSettings = (db: Db, organization_id: string): Promise<TaxSettingsTable | undefined> =>
  db.q.selectFrom('tax_settings').selectAll().where('organization_id', '=', organization_id).executeTakeFirst()

export const listRates = (db: Db, organization_id: string): Promise<TaxRateTable[]> =>
  db.q
    .selectFrom('tax_rates')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .orderBy('country')
    .orderBy('state', (by) => by.asc().nullsFirst())
    .execute()

/** Returns the seller's tax rates for a country, and the country of the seller. */
export const findRates = async (db: Db, organization_id: string, country: string): Promise<{ seller_country: string | null; rates: TaxRateTable[] }> => {
  const rows = await db.q
    .selectFrom('organizations as o')
    .leftJoin('tax_rates as r', (on) => on.onRef('r.organization_id', '=', 'o.id').on('r.country', '=', country))
    .select(['o.country as seller_country', 'r.id', 'r.country', 'r.state', 'r.rate', 'r.reverse_charge'])
    .where('o.id', '=', organization_id)
    .execute()
  // Without rates, the join still returns one row with the seller's country.
  const rates = rows.flatMap(({ seller_country: _, ...rate }) => (rate.id === null ? [] : [{ ...rate, organization_id } as TaxRateTable]))
  return { seller_country: rows[0]!.seller_country, rates }
}

/**
 * Inserts or updates the settings. Locks the settings row, so that concurrent updates replace the list of rates one
 * after the other.
 */
export const putSettings = async (tx: Tx, settings: TaxSettingsTable): Promise<Locked<TaxSettingsTable>> =>
  await writeRow(
    tx.q
      .insertInto('tax_settings')
      .values(settings)
      .onConflict((present) => present.column('organization_id').doUpdateSet({ modified_at: settings.modified_at, provider: settings.provider }))
      .returningAll(),
  )

/** Replaces the tax rates. Leaves unchanged rates untouched, so that the audit log shows only real changes. */
export const replaceRates = async (tx: Tx, { organization_id }: Locked<TaxSettingsTable>, rates: readonly TaxRateTable[]): Promise<void> => {
  await tx.q
    .deleteFrom('tax_rates')
    .where('organization_id', '=', organization_id)
    .where(sql`coalesce(state, country)`, '<>', sql`all(${rates.map(({ country, state }) => state ?? country)}::text[])`)
    .execute()
  if (rates.length > 0)
    await tx.q
      .insertInto('tax_rates')
      .values([...rates])
      .onConflict((present) =>
        present
          .constraint('tax_rates_place')
          .doUpdateSet({ rate: sql`excluded.rate`, reverse_charge: sql`excluded.reverse_charge` })
          .where(sql<boolean>`(tax_rates.rate, tax_rates.reverse_charge) is distinct from (excluded.rate, excluded.reverse_charge)`),
      )
      .execute()
}
