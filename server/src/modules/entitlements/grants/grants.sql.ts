import type { PageRequest } from '@bursar/contract'
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { narrowed, organizationIds, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import { listRows, type Filter, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, isOneOf, json, withinReach } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { ContainerKey } from '../../billing/index.ts'
import { findCustomerIds, ofCustomers, ownedBy } from '../../customers/index.ts'

/** Why it could not be given or taken away, as the wire says it. */
export interface GrantError {
  readonly message: string
  readonly type: string
  readonly timestamp: string
}

export interface GrantTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  benefit_id: string
  subscription_id: string | null
  order_id: string | null
  seat_id: string | null
  buyer_customer_id: string
  holder_customer_id: string | null
  member_id: string | null
  is_manual: boolean
  is_withheld: boolean
  is_wanted: boolean
  granted_at: Date | null
  revoked_at: Date | null
  properties: Readonly<Record<string, unknown>>
  error: GrantError | null
  attempts: number
  place: string | null
  account: string | null
  cycled_for: Date | null
  due_at: Date | null
  clock_id: null
  lease_until: Date | null
  lease_token: string | null
  lease_holder: string | null
}
export type GrantRow = Selectable<GrantTable>

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    benefit_grants: GrantTable
    meter_credits: {
      organization_id: string
      id: string
      created_at: Date
      grant_id: string
      meter_id: string
      customer_id: string
      units: number
      rollover: boolean
      period_start: Date | null
    }
    benefit_graces: {
      organization_id: string
      id: string
      due_at: Date | null
      clock_id: string | null
      lease_until: Date | null
      lease_token: string | null
      lease_holder: string | null
    }
  }
}

/** Whoever a grant is for: a member, or a customer that holds a seat; neither: the customer that bought it. */
export interface Recipient {
  readonly member_id: string | null
  readonly holder_customer_id: string | null
}

const furthest = `'9999-12-31Z'::timestamptz`
const ofBenefit = (column: string) =>
  `(select b.${column} from benefits b where b.organization_id = benefit_grants.organization_id and b.id = benefit_grants.benefit_id)`
const bought = (table: 'subscriptions' | 'orders', by: string, column: string) =>
  `(select s.${column} from ${table} s where s.organization_id = benefit_grants.organization_id and s.id = benefit_grants.${by})`

const list = {
  table: 'benefit_grants',
  tenant: 'organization_id',
  id: 'id',
  counted: 'benefit_grants',
  sortable: {
    created_at: { expression: 'created_at', type: 'timestamptz' },
    granted_at: { expression: `coalesce(granted_at, ${furthest})`, type: 'timestamptz' },
    revoked_at: { expression: `coalesce(revoked_at, ${furthest})`, type: 'timestamptz' },
    type: { expression: ofBenefit('type'), type: 'text' },
    // In the order in which its product gives it; what the product does not give (any more) comes last.
    product_benefit: {
      expression: `coalesce((select a.position from product_benefits a where a.organization_id = benefit_grants.organization_id and a.benefit_id = benefit_grants.benefit_id
        and a.product_id = coalesce(${bought('subscriptions', 'subscription_id', 'product_id')}, ${bought('orders', 'order_id', 'product_id')})), 2147483647)`,
      type: 'bigint',
    },
    organization: { expression: 'organization_id::text', type: 'text' },
  },
} as const satisfies ListSpec<string>

type Listing = PageRequest & { sorting: readonly string[] }

export interface GrantFilters {
  readonly organization_id?: readonly string[]
  readonly customer_id?: readonly string[]
  readonly external_customer_id?: readonly string[]
  readonly member_id?: readonly string[]
  readonly benefit_id?: readonly string[]
  readonly subscription_id?: readonly string[]
  readonly order_id?: readonly string[]
  readonly is_granted?: boolean | undefined
}

const selected = (db: Db, reach: Reach) => db.q.selectFrom('benefit_grants').selectAll().where('organization_id', '=', withinReach(reach))

const among = (query: Partial<Record<'benefit_id' | 'subscription_id' | 'order_id', readonly string[]>>): RawBuilder<unknown>[] =>
  (['benefit_id', 'subscription_id', 'order_id'] as const).flatMap((column) => anyOf(column, query[column]))

/** What these members have: in their own right, and as owners what is their customer's own. */
export const ofMembers = async (db: Db, reach: Reach, ids: readonly string[], table: string): Promise<Filter> => {
  const owned = await ownedBy(db, reach, ids)
  return (tenant) =>
    sql`(${isOneOf(`${table}.member_id`, ids)} or (${sql.ref(`${table}.member_id`)} is null and ${ofCustomers(narrowed(reach, tenant), owned, table)}))`
}

const listed = (db: Db, reach: Reach, organizations: readonly string[], query: Listing, filters: readonly Filter[]) =>
  listRows(db, list, organizations, query, filters, (found) => selected(db, reach).where('id', 'in', found).execute())

export const listGrants = async (db: Db, reach: Reach, query: GrantFilters & Listing) => {
  const filters: Filter[] = among(query)
  const of = (ids: readonly string[]) => filters.push((tenant) => ofCustomers(narrowed(reach, tenant), ids, 'benefit_grants'))
  if (query.customer_id?.length) of(query.customer_id)
  if (query.external_customer_id?.length) of(await findCustomerIds(db, reach, { external_id: query.external_customer_id }))
  if (query.member_id?.length) filters.push(await ofMembers(db, reach, query.member_id, 'benefit_grants'))
  if (query.is_granted !== undefined) filters.push(sql`(granted_at is not null) = ${query.is_granted}`)
  return listed(db, reach, organizationIds(reach, query.organization_id), query, filters)
}

/**
 * What whoever stands in the portal has: a member what is theirs, the owner also what is the customer's own, a customer
 * what it bought for itself or holds. Neither what was taken away nor what the seller keeps to itself.
 */
export const ownGrant = (reach: Reach, { customer_id, member_id, role }: PortalActor): RawBuilder<boolean> => {
  const mine = sql`member_id = ${member_id}`
  const ours = sql`(${ofCustomers(reach, [customer_id], 'benefit_grants')} and (member_id is null or holder_customer_id = ${customer_id}))`
  const theirs = role === 'customer' ? ours : role === 'owner' ? sql`(${mine} or ${ours})` : mine
  return sql<boolean>`(${theirs} and revoked_at is null and is_wanted and ${sql.raw(ofBenefit('visibility'))} = 'public')`
}

export interface OwnFilters {
  readonly query?: string | undefined
  readonly type: readonly string[]
  readonly benefit_id: readonly string[]
  readonly checkout_id: readonly string[]
  readonly order_id: readonly string[]
  readonly subscription_id: readonly string[]
  readonly member_id: readonly string[]
}

export const listOwnGrants = async (db: Db, reach: Reach, actor: PortalActor, query: OwnFilters & Listing) => {
  const filters: Filter[] = [ownGrant(reach, actor), ...among(query)]
  if (query.query) filters.push(sql`${sql.raw(ofBenefit('description'))} ilike ${containing(query.query)}`)
  if (query.type.length > 0) filters.push(sql`${sql.raw(ofBenefit('type'))} = any(${query.type}::text[])`)
  if (query.checkout_id.length > 0)
    filters.push(
      sql`coalesce(${sql.raw(bought('subscriptions', 'subscription_id', 'checkout_id'))}, ${sql.raw(bought('orders', 'order_id', 'checkout_id'))}) = any(${query.checkout_id}::uuid[])`,
    )
  if (query.member_id.length > 0) filters.push(await ofMembers(db, reach, query.member_id, 'benefit_grants'))
  return listed(db, reach, organizationIds(reach), query, filters)
}

export const findGrant = (db: Db, reach: Reach, id: string): Promise<GrantRow | undefined> => selected(db, reach).where('id', '=', id).executeTakeFirst()

/** Holds the grant: it is given and taken away by one at a time, and its events are drawn in that order. */
export const lockGrant = async (tx: Tx, reach: Reach, id: string): Promise<Locked<GrantRow> | undefined> =>
  (await selected(tx, reach).where('id', '=', id).forNoKeyUpdate().executeTakeFirst()) as Locked<GrantRow> | undefined

export const findOwnGrant = (db: Db, reach: Reach, actor: PortalActor, id: string): Promise<GrantRow | undefined> =>
  selected(db, reach).where('id', '=', id).where(ownGrant(reach, actor)).executeTakeFirst()

export const lockOwnGrant = async (tx: Tx, reach: Reach, actor: PortalActor, id: string): Promise<Locked<GrantRow> | undefined> =>
  (await selected(tx, reach).where('id', '=', id).where(ownGrant(reach, actor)).forNoKeyUpdate().executeTakeFirst()) as Locked<GrantRow> | undefined

/** Which grants are meant, where many are gone through. */
export type Many =
  | { readonly container: ContainerKey }
  | { readonly benefit_id: string }
  /** What is the customer's own. */
  | { readonly direct_of: string }
  | { readonly manual_of: { readonly member_id: string } | { readonly buyer_customer_id: string } }

const meant = (many: Many): RawBuilder<boolean> => {
  if ('container' in many) {
    const { subscription_id, order_id } = many.container
    return subscription_id === null ? sql`order_id = ${order_id}` : sql`subscription_id = ${subscription_id}`
  }
  if ('benefit_id' in many) return sql`benefit_id = ${many.benefit_id}`
  if ('direct_of' in many) return sql`buyer_customer_id = ${many.direct_of} and member_id is null and holder_customer_id is null`
  const [column, id] = Object.entries(many.manual_of)[0]!
  return sql`is_manual and ${sql.ref(column)} = ${id}`
}

const forRecipients = (people: readonly Recipient[]): RawBuilder<boolean> => {
  const members = people.flatMap(({ member_id }) => member_id ?? [])
  const holders = people.flatMap(({ holder_customer_id }) => holder_customer_id ?? [])
  const direct = people.some(({ member_id, holder_customer_id }) => member_id === null && holder_customer_id === null)
  return sql<boolean>`(member_id = any(${members}::uuid[]) or holder_customer_id = any(${holders}::uuid[]) or (${direct} and member_id is null and holder_customer_id is null))`
}

/** Holds those of them that are to be there, so many at a time, in the order of their ids; of everybody, or of these people. */
export const lockWanted = async (
  tx: Tx,
  organization_id: string,
  many: Many,
  { after, limit, people }: { after: string | null; limit: number; people?: readonly Recipient[] },
): Promise<Locked<GrantRow>[]> => {
  const { rows } = await sql<Locked<GrantRow>>`
    select * from benefit_grants where organization_id = ${organization_id} and ${meant(many)} and is_wanted
      ${people ? sql`and ${forRecipients(people)}` : sql``} and (${after}::uuid is null or id > ${after})
    order by id limit ${limit} for no key update`.execute(tx.q)
  return rows
}

/** Holds everything that these people ever had through a purchase. */
export const lockGrantsOf = async (tx: Tx, container: ContainerKey, people: readonly Recipient[]): Promise<Locked<GrantRow>[]> => {
  const { rows } = await sql<Locked<GrantRow>>`
    select * from benefit_grants where organization_id = ${container.organization_id} and ${meant({ container })} and ${forRecipients(people)}
    order by id for no key update`.execute(tx.q)
  return rows
}

/** What was given by hand of one benefit to one recipient, held. */
export const lockManual = async (
  tx: Tx,
  { organization_id, benefit_id, buyer_customer_id, member_id }: Pick<GrantRow, 'organization_id' | 'benefit_id' | 'buyer_customer_id' | 'member_id'>,
): Promise<Locked<GrantRow> | undefined> => {
  const { rows } = await sql<Locked<GrantRow>>`
    select * from benefit_grants where organization_id = ${organization_id} and buyer_customer_id = ${buyer_customer_id} and benefit_id = ${benefit_id}
      and is_manual and member_id is not distinct from ${member_id} for no key update`.execute(tx.q)
  return rows[0]
}

/** All that changes about a grant. The lease is not among it: whoever works on one outside notices when they come back. */
const changing = [
  'modified_at',
  'seat_id',
  'is_withheld',
  'is_wanted',
  'granted_at',
  'revoked_at',
  'properties',
  'error',
  'attempts',
  'place',
  'account',
  'cycled_for',
  'due_at',
] as const
const atOnce = 500

/** Writes grants as they are to be, new ones and those that are held. */
export const saveGrants = async (tx: Tx, rows: readonly GrantRow[]): Promise<void> => {
  for (let from = 0; from < rows.length; from += atOnce)
    await tx.q
      .insertInto('benefit_grants')
      .values(rows.slice(from, from + atOnce).map((row) => ({ ...row, properties: json(row.properties), error: row.error && json(row.error) })))
      .onConflict((twin) =>
        twin.columns(['organization_id', 'id']).doUpdateSet((now) => Object.fromEntries(changing.map((column) => [column, now.ref(`excluded.${column}`)]))),
      )
      .execute()
}

export interface Credit {
  readonly organization_id: string
  readonly id: string
  readonly created_at: Date
  readonly grant_id: string
  readonly meter_id: string
  readonly customer_id: string
  readonly units: number
  readonly rollover: boolean
  readonly period_start: Date | null
}

/** Puts units on meters, once for each grant and period; hands back the grants for which it was the first time. */
export const insertCredits = async (tx: Tx, credits: readonly Credit[]): Promise<ReadonlySet<string>> => {
  if (credits.length === 0) return new Set()
  const made = await tx.q
    .insertInto('meter_credits')
    .values([...credits])
    .onConflict((twin) => twin.columns(['organization_id', 'grant_id', 'period_start']).doNothing())
    .returning('grant_id')
    .execute()
  return new Set(made.map(({ grant_id }) => grant_id))
}

/** When what a subscription gives although it is not paid is to be looked at again; null: not at all. */
export const keepGrace = async (tx: Tx, organization_id: string, id: string, due_at: Date | null, clock_id: string | null): Promise<void> => {
  if (due_at === null)
    await sql`update benefit_graces set due_at = null where organization_id = ${organization_id} and id = ${id} and due_at is not null`.execute(tx.q)
  else
    await sql`
      insert into benefit_graces (organization_id, id, due_at, clock_id) values (${organization_id}, ${id}, ${due_at}, ${clock_id})
      on conflict (organization_id, id) do update set due_at = excluded.due_at, clock_id = excluded.clock_id`.execute(tx.q)
}

/**
 * Whether a grant, called g, is there and everybody is through whom it is had: whoever pays, and the member; before the
 * member model also whoever holds it as a customer. What jobs are still taking away does not count any more.
 */
export const stands = sql<boolean>`(g.is_wanted and g.granted_at is not null and g.revoked_at is null
  and not exists (select from members m where m.organization_id = g.organization_id and m.id = g.member_id and m.deleted_at is not null)
  and not exists (select from customers c join organizations o on o.id = c.organization_id where c.organization_id = g.organization_id and c.deleted_at is not null
    and (c.id = g.buyer_customer_id or (c.id = g.holder_customer_id and o.member_phase <> 'phase2'))))`

/** Whether somebody else's grant is to keep this account in this place. */
export const isShared = async (tx: Tx, { organization_id, id, place, account }: GrantRow): Promise<boolean> => {
  const { rows } = await sql`
    select from benefit_grants where organization_id = ${organization_id} and id <> ${id} and place = ${place} and account = ${account} and is_wanted limit 1`.execute(
    tx.q,
  )
  return rows.length > 0
}

/**
 * Somebody was shown out: whoever is to be there all the same is let in again. Whoever lets them in at this moment may have
 * done it before they were shown out: they lose their lease, and it is done once more.
 */
export const wakeSharing = async (tx: Tx, { organization_id, id }: GrantRow, place: string, account: string): Promise<void> => {
  await sql`
    update benefit_grants set due_at = ${tx.clock.wall()}, lease_until = null, lease_token = null, lease_holder = null where organization_id = ${organization_id} and id <> ${id} and place = ${place} and account = ${account} and is_wanted`.execute(
    tx.q,
  )
}
