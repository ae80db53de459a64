import type { Metadata, PageRequest, TrialInterval } from '@bursar/contract'
import { sql } from 'kysely'
import type { z } from 'zod'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { listRows, referred, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { isOneOf, json, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { loadDiscounts, loadProducts, type DiscountTable, type LoadedProduct } from '../../catalog/index.ts'

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

/** A link with what it offers. */
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

const live = (db: Db, reach: Reach) =>
  db.q.selectFrom('checkout_links').selectAll().where('organization_id', '=', withinReach(reach)).where('deleted_at', 'is', null)

export const listLinks = async (
  db: Db,
  reach: Reach,
  query: PageRequest & { organization_id: readonly string[]; product_id: readonly string[]; sorting: readonly string[] },
) => {
  const sellers = organizationIds(reach, query.organization_id)
  // By their ids: what is found of the products leads to the links, and not the other way round.
  const offering = sql`id = any(array(select o.checkout_link_id from checkout_link_products o where o.organization_id = any(${sellers}::uuid[]) and ${isOneOf('o.product_id', query.product_id)}))`
  const { items, total, next_cursor } = await listRows(db, list, sellers, query, query.product_id.length > 0 ? [offering] : [], (found) =>
    live(db, reach).where('id', 'in', found).execute(),
  )
  return { items: await loadLinks(db, items), total, next_cursor }
}

/** Rows with all that is shown of them, in their order. A discount that was deleted is none. */
export const loadLinks = async (db: Db, links: readonly LinkRow[]): Promise<LoadedLink[]> => {
  if (links.length === 0) return []
  const offers = await db.q
    .selectFrom('checkout_link_products')
    .select(['organization_id', 'checkout_link_id', 'product_id'])
    .where('organization_id', 'in', [...new Set(links.map(({ organization_id }) => organization_id))])
    .where(
      'checkout_link_id',
      'in',
      links.map(({ id }) => id),
    )
    .orderBy('position')
    .execute()
  const [products, discounts] = await Promise.all([
    loadProducts(
      db,
      referred(offers, ({ product_id }) => product_id),
    ),
    loadDiscounts(
      db,
      referred(links, ({ discount_id }) => discount_id),
    ),
  ])
  return links.map((link) => ({
    link,
    products: offers.flatMap(({ checkout_link_id, product_id }) =>
      checkout_link_id === link.id ? products.filter(({ product }) => product.id === product_id) : [],
    ),
    discount: discounts.find(({ id, deleted_at }) => id === link.discount_id && deleted_at === null) ?? null,
  }))
}

export const findLink = async (db: Db, reach: Reach, id: string): Promise<LoadedLink | undefined> =>
  (await loadLinks(db, await live(db, reach).where('id', '=', id).execute()))[0]

/** Holds the link: what it offers changes by one caller at a time. */
export const lockLink = async (tx: Tx, reach: Reach, id: string): Promise<Locked<LinkRow> | undefined> =>
  (await live(tx, reach).where('id', '=', id).forNoKeyUpdate().executeTakeFirst()) as Locked<LinkRow> | undefined

/** Holds every link that offers a product, in one order for everybody. */
export const lockLinksOffering = async (tx: Tx, organization_id: string, product_id: string): Promise<Locked<LinkRow>[]> => {
  const offering = tx.q
    .selectFrom('checkout_link_products')
    .select('checkout_link_id')
    .where('organization_id', '=', organization_id)
    .where('product_id', '=', product_id)
  return (await tx.q
    .selectFrom('checkout_links')
    .selectAll()
    .where('organization_id', '=', organization_id)
    .where('deleted_at', 'is', null)
    .where('id', 'in', offering)
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()) as Locked<LinkRow>[]
}

const stored = <T extends Partial<LinkRow>>(changes: T) => ({ ...changes, ...(changes.metadata === undefined ? {} : { metadata: json(changes.metadata) }) })

export const insertLink = async (tx: Tx, link: LinkRow): Promise<void> => {
  await tx.q.insertInto('checkout_links').values(stored(link)).execute()
}

export const changeLink = async (tx: Tx, link: Locked<LinkRow>, changes: Partial<LinkRow>): Promise<LinkRow> => {
  const after = { ...changes, modified_at: tx.clock.business() }
  await tx.q.updateTable('checkout_links').set(stored(after)).where('organization_id', '=', link.organization_id).where('id', '=', link.id).execute()
  return { ...link, ...after }
}

export const replaceOffers = async (tx: Tx, { organization_id, id }: LinkRow, products: readonly string[]): Promise<void> => {
  await tx.q.deleteFrom('checkout_link_products').where('organization_id', '=', organization_id).where('checkout_link_id', '=', id).execute()
  await tx.q
    .insertInto('checkout_link_products')
    .values(products.map((product_id, position) => ({ organization_id, checkout_link_id: id, product_id, position })))
    .execute()
}

export const dropOffer = async (tx: Tx, { organization_id, id }: Locked<LinkRow>, product_id: string): Promise<void> => {
  await tx.q
    .deleteFrom('checkout_link_products')
    .where('organization_id', '=', organization_id)
    .where('checkout_link_id', '=', id)
    .where('product_id', '=', product_id)
    .execute()
}
