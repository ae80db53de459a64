import type { Metadata, PageRequest, TrialInterval } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { z } from 'zod'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow, lockRows, markLocked } from '../../../platform/postgres/locks.ts'
import { listRows, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { isOneOf, json, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { BusinessTx, Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { loadProducts, type DiscountTable, type LoadedProduct } from '../../catalog/index.ts'
import { fromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import { parseSeller, publishableKey, sellerColumn, type Seller } from '../records/sellers.sql.ts'

export interface LinkRow {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  deleted_at: Date | null
  secret_sealed: string
  label: string | null
  discount_id: string | null
  allow_discount_codes: boolean
  require_billing_address: boolean
  seats: number | null
  trial_interval: z.output<typeof TrialInterval> | null
  trial_interval_count: number | null
  success_url: string | null
  return_url: string | null
  metadata: Metadata
}

/** A link with its products and its discount. */
export interface LoadedLink {
  readonly link: LinkRow
  readonly products: readonly LoadedProduct[]
  readonly discount: DiscountTable | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    checkout_links: LinkRow
    checkout_link_products: { organization_id: string; checkout_link_id: string; product_id: string; position: number }
  }
}

const list = {
  table: 'checkout_links',
  tenant: 'organization_id',
  id: 'id',
  always: sql`deleted_at is null`,
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    label: { expression: `coalesce(label, '')`, type: 'text' },
    success_url: { expression: `coalesce(success_url, '')`, type: 'text' },
    allow_discount_codes: { expression: 'allow_discount_codes::integer::bigint', type: 'bigint' },
  },
} satisfies ListSpec<string>

const live = (db: Db, scope: TenantScope) =>
  db.q.selectFrom('checkout_links').selectAll().where('organization_id', '=', inScope(scope)).where('deleted_at', 'is', null)

interface RelatedRows {
  readonly product_ids: readonly string[]
  readonly discount: JsonRow<DiscountTable> | null
}

type Found = LinkRow & { readonly related: RelatedRows }

/** The rows that belong to a link `l`. A deleted discount is left out. */
const related = sql<{ related: RelatedRows }>`json_build_object(
  'product_ids', array(select p.product_id from checkout_link_products p where p.organization_id = l.organization_id and p.checkout_link_id = l.id order by p.position),
  'discount', (select to_json(d) from discounts d where d.organization_id = l.organization_id and d.id = l.discount_id and d.deleted_at is null)) as related`

const select = async <More = unknown>(db: Db, more: RawBuilder<unknown>, from: RawBuilder<unknown>): Promise<(Found & More)[]> => {
  const { rows } = await sql<Found & More>`select l.*, ${more} from ${from}`.execute(db.q)
  return rows
}

/** Loads the products of all found links with one more statement. */
const withProducts = async (db: Db, found: readonly Found[]): Promise<LoadedLink[]> => {
  const keys = new Map(found.flatMap(({ organization_id, related: { product_ids } }) => product_ids.map((id) => [id, { tenant: organization_id, id }])))
  const loaded = new Map((await loadProducts(db, [...keys.values()])).map((one) => [one.product.id, one]))
  return found.map(({ related: { product_ids, discount }, ...link }) => ({
    link,
    products: product_ids.flatMap((id) => loaded.get(id) ?? []),
    discount: discount && fromJson<DiscountTable>(discount, { created_at: true, modified_at: true, deleted_at: true, starts_at: true, ends_at: true }),
  }))
}

export const listLinks = async (
  db: Db,
  scope: TenantScope,
  query: PageRequest & { organization_id: readonly string[]; product_id: readonly string[]; sorting: readonly string[] },
) => {
  const sellers = organizationIds(scope, query.organization_id)
  // The `array(select …)` makes the planner find the products first and then look up their links by id.
  const offering = sql`id = any(array(select o.checkout_link_id from checkout_link_products o where o.organization_id = any(${sellers}::uuid[]) and ${isOneOf('o.product_id', query.product_id)}))`
  const { items, total, next_cursor } = await listRows(db, list, sellers, query, query.product_id.length > 0 ? [offering] : [], (found) =>
    select(db, related, sql`checkout_links l where l.organization_id = ${inScope(scope)} and l.id = any(${found}::uuid[]) and l.deleted_at is null`),
  )
  return { items: await withProducts(db, items), total, next_cursor }
}

/** Loads the products and discounts of locked links of one seller, in the order of their ids. */
export const loadLinks = async (tx: Tx, organization_id: string, links: readonly Locked<LinkRow>[]): Promise<(LoadedLink & { link: Locked<LinkRow> })[]> => {
  const ids = links.map(({ id }) => id)
  const found = await select(tx, related, sql`checkout_links l where l.organization_id = ${organization_id} and l.id = any(${ids}::uuid[]) order by l.id`)
  return (await withProducts(tx, found)).map((loaded) => ({ ...loaded, link: markLocked(loaded.link) }))
}

export const findLink = async (db: Db, scope: TenantScope, id: string): Promise<LoadedLink | undefined> =>
  (
    await withProducts(
      db,
      await select(db, related, sql`checkout_links l where l.organization_id = ${inScope(scope)} and l.id = ${id} and l.deleted_at is null`),
    )
  )[0]

/** Finds the link of a secret with its seller. The secret is given as the hashes under which it may be stored. */
export const findLinkBySecretHash = async (
  db: Db,
  hashes: readonly string[],
): Promise<(LoadedLink & { seller: Seller; publishable_key: string | null }) | undefined> => {
  const more = sql`${sellerColumn}, ${publishableKey('o.id')} as publishable_key, ${related}`
  const from = sql`
    credentials s join organizations o on o.id = s.organization_id and o.deleted_at is null
    join checkout_links l on l.organization_id = s.organization_id and l.id = s.subject_id and l.deleted_at is null
    where s.hash = any(${hashes}::text[]) and s.kind = 'checkout_link'`
  const [found] = await select<{ seller: JsonRow<Seller>; publishable_key: string | null }>(db, more, from)
  if (!found) return undefined
  const { seller, publishable_key, ...link } = found
  return { ...(await withProducts(db, [link]))[0]!, seller: parseSeller(seller), publishable_key }
}

/** Finds the seller of a link, by the hashes of the secret of the link. The link may be deleted. */
export const findLinkSeller = async (db: Db, hashes: readonly string[]): Promise<{ seller: Seller; return_url: string | null } | undefined> => {
  const { rows } = await sql<{ seller: JsonRow<Seller>; return_url: string | null }>`
    select ${sellerColumn}, l.return_url
    from credentials s join organizations o on o.id = s.organization_id and o.deleted_at is null
    join checkout_links l on l.organization_id = s.organization_id and l.id = s.subject_id
    where s.hash = any(${hashes}::text[]) and s.kind = 'checkout_link'`.execute(db.q)
  return rows[0] && { ...rows[0], seller: parseSeller(rows[0].seller) }
}

/** Locks the link, so that only one transaction at a time changes the link and its products. */
export const lockLink = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<LinkRow> | undefined> =>
  await lockRow(live(tx, scope).where('id', '=', id))

/** Locks all links that offer a product. Locks them in the order of their ids, so that two transactions cannot deadlock. */
export const lockLinksOffering = async (tx: Tx, organization_id: string, product_id: string): Promise<Locked<LinkRow>[]> => {
  const offering = tx.q
    .selectFrom('checkout_link_products')
    .select('checkout_link_id')
    .where('organization_id', '=', organization_id)
    .where('product_id', '=', product_id)
  return await lockRows(
    tx.q
      .selectFrom('checkout_links')
      .selectAll()
      .where('organization_id', '=', organization_id)
      .where('deleted_at', 'is', null)
      .where('id', 'in', offering)
      .orderBy('id'),
  )
}

const stored = <T extends Partial<LinkRow>>(changes: T) => ({ ...changes, ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }) })

/** Inserts the link and the products that it offers, in one statement. */
export const insertLink = async (tx: Tx, link: LinkRow, products: readonly string[]): Promise<void> => {
  await tx.q
    .with('made', (q) => q.insertInto('checkout_links').values(stored(link)).returning(['organization_id', 'id']))
    .insertInto('checkout_link_products')
    .columns(['organization_id', 'checkout_link_id', 'product_id', 'position'])
    .expression((q) =>
      q
        .selectFrom(['made', sql<{ id: string; place: number }>`unnest(${products}::uuid[]) with ordinality`.as<'o'>(sql`o (id, place)`)])
        .select(['made.organization_id', 'made.id', 'o.id as product_id', sql<number>`o.place - 1`.as('position')]),
    )
    .execute()
}

export const changeLink = async (tx: BusinessTx, link: Locked<LinkRow>, changes: Partial<LinkRow>): Promise<LinkRow> => {
  const after = { ...changes, modified_at: tx.clock.business() }
  await tx.q.updateTable('checkout_links').set(stored(after)).where('organization_id', '=', link.organization_id).where('id', '=', link.id).execute()
  return { ...link, ...after }
}

export const replaceOffers = async (tx: Tx, { organization_id, id }: Locked<LinkRow>, products: readonly string[]): Promise<void> => {
  await tx.q.deleteFrom('checkout_link_products').where('organization_id', '=', organization_id).where('checkout_link_id', '=', id).execute()
  await sql`
    insert into checkout_link_products (organization_id, checkout_link_id, product_id, position)
    select ${organization_id}, ${id}, o.id, o.place - 1 from unnest(${products}::uuid[]) with ordinality o (id, place)`.execute(tx.q)
}

/** Removes a product from the given links. */
export const dropOffer = async (tx: Tx, organization_id: string, links: readonly Locked<LinkRow>[], product_id: string): Promise<void> => {
  const ids = links.map(({ id }) => id)
  await sql`
    delete from checkout_link_products
    where organization_id = ${organization_id} and product_id = ${product_id} and checkout_link_id = any(${ids}::uuid[])`.execute(tx.q)
}

/** Locks products in scope in share mode until the transaction ends, in the order of their ids. */
export const holdOffered = async (tx: Tx, scope: TenantScope, ids: readonly string[]): Promise<void> => {
  await sql`select from products where organization_id = ${inScope(scope)} and id = any(${ids}::uuid[]) order by id for share`.execute(tx.q)
}
