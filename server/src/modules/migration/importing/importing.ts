import { writeLabel } from '@bursar/views'
import { InvalidRequest } from '@bursar/contract'
import { Secret } from '../../../kernel/secrets.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import type { BusinessTx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { insertOrder, insertSubscription, openImportedPeriods, recordImportedPeriods, type UpfrontPrice } from '../../billing/index.ts'
import { insertBenefit, insertPrices, insertProduct, keepBenefitFiles, priceRow, replaceBenefits } from '../../catalog/index.ts'
import { insertActivation, insertDownloadables, saveGrants, saveKeys } from '../../entitlements/index.ts'
import { createUser, findUserByEmail } from '../../identity/index.ts'
import { createLegacyOrganization, findLivingOrganization, holdPhase, insertMembership, type OrganizationRow } from '../../organizations/index.ts'
import { build } from './building.ts'
import { grantName, LineRefused, noRows, tables, type Bench } from './bench.ts'
import {
  customersCalled,
  grantsLike,
  insertCustomers,
  insertSeats,
  keysLike,
  lowered,
  migrationState,
  nameGiven,
  partsOf,
  rowsOf,
  type GrantName,
  type Table,
} from './importing.sql.ts'
import { readLine, type BundleRecord, type RecordOf } from './records.ts'

/** Number of lines that are written in one transaction. */
export const atOnce = 500

export interface RefusedLine {
  readonly line: number
  readonly says: string
}

export interface Imported {
  /** Number of added and of already existing records, by record type. */
  readonly counts: Partial<Record<BundleRecord['type'], { added: number; known: number }>>
  /** Rejected lines. The part of the bundle that contains a rejected line is not written, and neither are later parts. */
  readonly refused: readonly RefusedLine[]
}

interface Line {
  readonly line: number
  readonly record: BundleRecord
}

/** Thrown to roll back a part of the bundle that contains rejected lines. */
class PartRefused extends Error {
  readonly refused: readonly RefusedLine[]
  constructor(refused: readonly RefusedLine[]) {
    super('Some lines of this bundle cannot be imported.')
    this.refused = refused
  }
}

/**
 * Imports the bundle of an organization without the member model, and keeps the original ids. Creates no members and
 * emits no events. Idempotent: existing records stay unchanged, so a repeated call continues an interrupted import.
 * After the first rejected line nothing more is written. Later lines are still checked for valid syntax.
 */
export const importLegacy = async (
  deps: Pick<Deps, 'transact' | 'platform'>,
  slug: string,
  lines: AsyncIterable<string> | Iterable<string>,
  tell: (lines: number) => void = () => undefined,
): Promise<Imported> => {
  const counts: Imported['counts'] = {}
  const refused: RefusedLine[] = []
  let [line, part, first]: [number, Line[], boolean] = [0, [], true]
  const write = async () => {
    if (part.length > 0 && refused.length === 0) {
      try {
        for (const [type, { added, known }] of await deps.transact((tx) => writePart(inWallTime(tx), deps.platform, slug, part, first))) {
          const count = (counts[type] ??= { added: 0, known: 0 })
          count.added += added
          count.known += known
        }
      } catch (error) {
        if (!(error instanceof PartRefused)) throw error
        refused.push(...error.refused)
      }
    }
    ;[part, first] = [[], false]
    tell(line)
  }
  for await (const text of lines) {
    line++
    if (text.trim() === '') continue
    const read = readLine(text)
    if ('says' in read) refused.push({ line, says: read.says })
    else part.push({ line, record: read.record })
    if (part.length >= atOnce) await write()
  }
  await write()
  return { counts, refused }
}

type Counted = Map<BundleRecord['type'], { added: number; known: number }>

const writePart = async (tx: BusinessTx, platform: Platform, slug: string, part: readonly Line[], first: boolean): Promise<Counted> => {
  const counted: Counted = new Map()
  const count = (type: BundleRecord['type'], fresh: boolean) => {
    const { added, known } = counted.get(type) ?? { added: 0, known: 0 }
    counted.set(type, { added: added + (fresh ? 1 : 0), known: known + (fresh ? 0 : 1) })
  }
  const [head] = part
  const opening = first && head!.record.type === 'organization' ? (head as Line & { record: RecordOf<'organization'> }) : undefined
  const { organization, fresh } = await findOrOpen(tx, platform, slug, opening, head!.line)
  if (opening) count('organization', fresh)
  const bench = await prepare(tx, platform, organization, part)
  const refused: RefusedLine[] = []
  for (const { line, record } of opening ? part.slice(1) : part)
    try {
      if (record.type === 'organization') throw new LineRefused('type: an organization is allowed in the first line only.')
      count(record.type, await build(bench, record))
    } catch (error) {
      if (!(error instanceof LineRefused)) throw error
      refused.push({ line, says: error.message })
    }
  if (refused.length > 0) throw new PartRefused(refused)
  await store(bench)
  return counted
}

/** Finds or creates the organization of the bundle. Rejects an organization whose member migration has started, because it accepts no legacy records. */
const findOrOpen = async (
  tx: BusinessTx,
  platform: Platform,
  slug: string,
  opening: { readonly record: RecordOf<'organization'> } | undefined,
  line: number,
): Promise<{ organization: OrganizationRow; fresh: boolean }> => {
  const refuse = (says: string) => new PartRefused([{ line, says }])
  const record = opening?.record
  if (record && record.slug !== slug) throw refuse(`slug: this bundle is for ${record.slug}, but the import is for ${slug}.`)
  const known = await findLivingOrganization(tx, { slug })
  if (known) {
    const state = await migrationState(tx, known.id)
    if ((await holdPhase(tx, known.id)) !== 'before') throw refuse(`The organization ${slug} already has members, so it accepts no legacy data.`)
    if (state !== undefined && state !== 'before') throw refuse(`The members of ${slug} are being prepared. Undo the preparation first, then import.`)
    return { organization: known, fresh: false }
  }
  if (!record) throw refuse(`There is no organization ${slug}. To create it, use this first line: {"type":"organization","name":"…","slug":"${slug}"}`)
  const { type: _, owner_email, ...body } = record
  try {
    const organization = await createLegacyOrganization(tx, body, platform.config.environment)
    if (owner_email !== undefined) {
      const owner = (await findUserByEmail(tx, owner_email)) ?? (await createUser(tx, { email: owner_email, is_operator: false }))
      await insertMembership(tx, organization.id, owner.id, 'owner', tx.clock.business())
    }
    return { organization, fresh: true }
  } catch (error) {
    if (!(error instanceof InvalidRequest)) throw error
    throw refuse(error.problems.map(({ loc, msg }) => `${loc.slice(1).join('.')}: ${msg}`).join('; '))
  }
}

/** Lists the table and id of each row that a record defines or refers to. */
const named = (record: BundleRecord): [Table, string | null | undefined][] => {
  switch (record.type) {
    case 'organization':
      return []
    case 'benefit':
      return [['benefits', record.id]]
    case 'product':
      return [['products', record.id], ...record.benefits.map((id): [Table, string] => ['benefits', id])]
    case 'customer':
      return [['customers', record.id]]
    case 'subscription':
      return [
        ['subscriptions', record.id],
        ['customers', record.customer_id],
        ['products', record.product_id],
      ]
    case 'order':
      return [
        ['orders', record.id],
        ['customers', record.customer_id],
        ['products', record.product_id],
      ]
    case 'seat':
      return [
        ['seats', record.id],
        ['customers', record.customer_id],
        ['subscriptions', record.subscription_id],
        ['orders', record.order_id],
      ]
    case 'grant':
      return [
        ['benefit_grants', record.id],
        ['benefits', record.benefit_id],
        ['customers', record.customer_id],
        ['seats', record.seat_id],
        ['subscriptions', record.subscription_id],
        ['orders', record.order_id],
      ]
    case 'license_key':
      return [
        ['license_keys', record.id],
        ['benefit_grants', record.grant_id],
      ]
    case 'download':
      return [
        ['downloadables', record.id],
        ['benefit_grants', record.grant_id],
        ['files', record.file_id],
      ]
  }
}

/** Loads all existing rows that the lines of a part define or refer to, in a fixed number of statements. */
const prepare = async (tx: BusinessTx, platform: Platform, organization: OrganizationRow, part: readonly Line[]): Promise<Bench> => {
  const { id: organization_id } = organization
  const there = noRows()
  const wanted = Map.groupBy(
    part.flatMap(({ record }) => named(record)),
    ([table]) => table,
  )
  const load = async (table: Table, ids: readonly (string | null | undefined)[]) => {
    const known = there[table] as Map<string, unknown>
    const missing = [...new Set(ids)].filter((id) => typeof id === 'string' && !known.has(id)) as string[]
    for (const row of await rowsOf(tx, table, organization_id, missing)) known.set(row.id, row)
  }
  for (const table of tables) await load(table, wanted.get(table)?.map(([, id]) => id) ?? [])
  await load(
    'benefits',
    [...there.benefit_grants.values()].map(({ benefit_id }) => benefit_id),
  )
  const records = part.map(({ record }) => record)
  const customers = records.filter((record) => record.type === 'customer')
  const keys = records.filter((record) => record.type === 'license_key')
  const emails = customers.map(({ email }) => email)
  const lower = await lowered(tx, emails)
  const called = await customersCalled(
    tx,
    organization_id,
    [...lower.values()],
    customers.flatMap(({ external_id }) => external_id ?? []),
  )
  const alike = await grantsLike(tx, organization_id, likely(there, records))
  const hashes = keys.flatMap(({ key }) => platform.hasher.candidates(new Secret(key)))
  const cut = await keysLike(
    tx,
    organization_id,
    hashes,
    keys.map(({ grant_id }) => grant_id),
  )
  return {
    tx,
    platform,
    organization,
    there,
    added: noRows(),
    parts: await partsOf(tx, organization_id, [...there.products.keys()]),
    activations: [],
    prices: new Map(),
    taken: {
      address: new Map(called.map(({ id, email }) => [email ?? '', id])),
      external_id: new Map(called.map(({ id, external_id }) => [external_id ?? '', id])),
      grant: new Map(alike.map((grant) => [grantName(grant), grant.id])),
      hash: new Map(cut.map(({ hash, id }) => [hash, id])),
      keyed: new Map(cut.map(({ grant_id, id }) => [grant_id, id])),
    },
    lower,
  }
}

/** Lists the unique keys that the grants of these lines could have. They are used to find grants that exist already. */
const likely = (there: Bench['there'], records: readonly BundleRecord[]): GrantName[] =>
  records.flatMap((record) => {
    if (record.type !== 'grant') return []
    const { benefit_id, customer_id, subscription_id = null, order_id = null } = record
    const bought = (subscription_id && there.subscriptions.get(subscription_id)) || (order_id && there.orders.get(order_id)) || undefined
    const buyer_customer_id = bought ? bought.customer_id : customer_id
    return [null, customer_id].map((holder_customer_id) => ({ buyer_customer_id, benefit_id, subscription_id, order_id, holder_customer_id }))
  })

/** Inserts the new rows of a part. Rows are inserted after the rows that they reference. */
const store = async ({ tx, organization, added, parts, prices, activations }: Bench): Promise<void> => {
  const { id: organization_id } = organization
  for (const benefit of added.benefits.values()) await keepBenefitFiles(tx, await insertBenefit(tx, benefit))
  for (const product of added.products.values()) {
    await insertProduct(tx, product)
    await insertPrices(
      tx,
      prices.get(product.id)!.map((price, position) => priceRow(product, { ...price, position }, product.created_at)),
    )
    await replaceBenefits(tx, product, parts.get(product.id)!.benefits)
  }
  await insertCustomers(tx, [...added.customers.values()])
  const pricesOf = ({ product_id, currency }: { product_id: string; currency: string }) =>
    parts.get(product_id)!.prices.filter(({ price_currency }) => price_currency === currency)
  for (const subscription of added.subscriptions.values())
    await insertSubscription(
      tx,
      subscription,
      pricesOf(subscription).map(({ id }) => id),
    )
  await openImportedPeriods(tx, organization_id, [...added.subscriptions.keys()])
  // Columns that the type of a price does not use are null.
  await recordImportedPeriods(
    tx,
    [...added.subscriptions.values()].map((subscription) => ({ subscription, prices: pricesOf(subscription) as UpfrontPrice[] })),
  )
  for (const order of added.orders.values()) {
    const { id, description: name, net_amount, tax_amount } = order
    const label = writeLabel({ type: 'product', name, seats: null })
    await insertOrder(tx, order, [{ id, label, amount: net_amount, discount_amount: 0, net_amount, tax_amount, proration: false, product_price_id: null }], [])
  }
  await insertSeats(tx, [...added.seats.values()])
  await saveGrants(tx, [...added.benefit_grants.values()])
  await saveKeys(tx, [...added.license_keys.values()])
  for (const { key, of } of activations)
    for (const { id, created_at = key.created_at, label, meta, conditions } of of)
      await insertActivation(tx, { organization_id, id, license_key_id: key.id, created_at, modified_at: null, label, meta, conditions })
  await insertDownloadables(tx, [...added.downloadables.values()])
  await nameGiven(
    tx,
    organization_id,
    [...added.license_keys.values(), ...added.downloadables.values()].map(({ grant_id }) => grant_id),
  )
}
