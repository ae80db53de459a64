import type { PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { narrowed, organizationIds, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { lockRow } from '../../../platform/postgres/locks.ts'
import { listRows, type Filter, type ListSpec } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, isOneOf, inScope } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { BenefitTable } from '../../catalog/index.ts'
import { rowFromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import {
  customerFromJson,
  customerShownOn,
  findCustomerIds,
  memberColumns,
  memberFromJson,
  ofCustomers,
  ownedBy,
  ownerWhere,
  type CustomerRow,
  type MemberRow,
} from '../../customers/index.ts'
import type { GrantRow } from './grants.sql.ts'

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
    // Sorts by the benefit's position in its product. Benefits that the product does not include, or no longer includes, come last.
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

/** A grant with all records needed to present it. */
export interface LoadedGrant {
  /** Id of the grant. */
  readonly id: string
  readonly grant: GrantRow
  readonly benefit: BenefitTable
  /** Customer that the grant is shown with. */
  readonly customer: CustomerRow
  /** Member who has the grant. Null if the grant belongs to the customer itself. */
  readonly member: MemberRow | null
  /** Owner of the customer's team. The owner also has the grants that belong to the customer itself. */
  readonly owner: MemberRow | null
}

interface Related {
  readonly benefit: JsonRow<BenefitTable>
  readonly customer: JsonRow<CustomerRow>
  readonly member: JsonRow<MemberRow> | null
  readonly owner: JsonRow<MemberRow> | null
}

const benefitFromJson = rowFromJson<BenefitTable>({ created_at: true, modified_at: true, deleted_at: true })

/** Loads grants with their related records in one statement. Includes deleted customers, members and benefits, so that old grants can be shown. */
const loadWhere = async (db: Db, scope: TenantScope, condition: RawBuilder<unknown>): Promise<LoadedGrant[]> => {
  const { rows } = await sql<GrantRow & Related>`
    select g.*, to_jsonb(b) as benefit, to_jsonb(c) as customer, to_jsonb(m) as member, to_jsonb(o) as owner
    from (select * from benefit_grants where organization_id = ${inScope(scope)} and ${condition}) g
    join benefits b on b.organization_id = g.organization_id and b.id = g.benefit_id
    cross join lateral (${customerShownOn(scope, 'g')}) c
    left join lateral (select ${memberColumns} from members where members.organization_id = g.organization_id and members.id = g.member_id) m on true
    left join lateral (${ownerWhere('g.organization_id', 'c.id')}) o on g.member_id is null`.execute(db.q)
  return rows.map(({ benefit, customer, member, owner, ...grant }) => ({
    id: grant.id,
    grant,
    benefit: benefitFromJson(benefit),
    customer: customerFromJson(customer),
    member: member && memberFromJson(member),
    owner: owner && memberFromJson(owner),
  }))
}

const loadGrantsById = (db: Db, scope: TenantScope, ids: readonly string[]) => loadWhere(db, scope, sql`id = any(${ids}::uuid[])`)

/** Loads the related records of grants, in the given order. Keeps the given rows, which the caller may have changed. */
export const loadGrants = async (db: Db, scope: TenantScope, rows: readonly GrantRow[]): Promise<LoadedGrant[]> => {
  if (rows.length === 0) return []
  const ids = rows.map(({ id }) => id)
  const loaded = new Map((await loadGrantsById(db, scope, ids)).map((one) => [one.id, one]))
  return rows.map((grant) => ({ ...loaded.get(grant.id)!, grant }))
}

const among = (query: Partial<Record<'benefit_id' | 'subscription_id' | 'order_id', readonly string[]>>): RawBuilder<unknown>[] =>
  (['benefit_id', 'subscription_id', 'order_id'] as const).flatMap((column) => anyOf(column, query[column]))

/** Filter for the grants of these members. Includes their own grants and, for owners, those of the customer itself. */
export const ofMembers = async (db: Db, scope: TenantScope, ids: readonly string[], table: string): Promise<Filter> => {
  const owned = await ownedBy(db, scope, ids)
  return (tenant) =>
    sql`(${isOneOf(`${table}.member_id`, ids)} or (${sql.ref(`${table}.member_id`)} is null and ${ofCustomers(narrowed(scope, tenant), owned, table)}))`
}

const listed = (db: Db, scope: TenantScope, organizations: readonly string[], query: Listing, filters: readonly Filter[]) =>
  listRows(db, list, organizations, query, filters, (found) => loadGrantsById(db, scope, found))

export const listGrants = async (db: Db, scope: TenantScope, query: GrantFilters & Listing) => {
  const filters: Filter[] = among(query)
  const of = (ids: readonly string[]) => filters.push((tenant) => ofCustomers(narrowed(scope, tenant), ids, 'benefit_grants'))
  if (query.customer_id?.length) of(query.customer_id)
  if (query.external_customer_id?.length) of(await findCustomerIds(db, scope, { external_id: query.external_customer_id }))
  if (query.member_id?.length) filters.push(await ofMembers(db, scope, query.member_id, 'benefit_grants'))
  if (query.is_granted !== undefined) filters.push(sql`(granted_at is not null) = ${query.is_granted}`)
  return listed(db, scope, organizationIds(scope, query.organization_id), query, filters)
}

/**
 * Condition for the grants that a portal user sees. A member sees their own grants. The owner also sees the customer's
 * own grants. A customer sees grants that it bought for itself and grants of seats that it holds. Revoked grants and
 * grants of non-public benefits are excluded.
 */
export const ownGrant = (scope: TenantScope, { customer_id, member_id, role }: PortalActor): RawBuilder<boolean> => {
  const mine = sql`member_id = ${member_id}`
  const ours = sql`(${ofCustomers(scope, [customer_id], 'benefit_grants')} and (member_id is null or holder_customer_id = ${customer_id}))`
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

export const listOwnGrants = async (db: Db, scope: TenantScope, actor: PortalActor, query: OwnFilters & Listing) => {
  const filters: Filter[] = [ownGrant(scope, actor), ...among(query)]
  if (query.query) filters.push(sql`${sql.raw(ofBenefit('description'))} ilike ${containing(query.query)}`)
  if (query.type.length > 0) filters.push(sql`${sql.raw(ofBenefit('type'))} = any(${query.type}::text[])`)
  if (query.checkout_id.length > 0)
    filters.push(
      sql`coalesce(${sql.raw(bought('subscriptions', 'subscription_id', 'checkout_id'))}, ${sql.raw(bought('orders', 'order_id', 'checkout_id'))}) = any(${query.checkout_id}::uuid[])`,
    )
  if (query.member_id.length > 0) filters.push(await ofMembers(db, scope, query.member_id, 'benefit_grants'))
  return listed(db, scope, organizationIds(scope), query, filters)
}

export const findLoadedGrant = async (db: Db, scope: TenantScope, id: string): Promise<LoadedGrant | undefined> =>
  (await loadWhere(db, scope, sql`id = ${id}`))[0]

export const findOwnGrant = async (db: Db, scope: TenantScope, actor: PortalActor, id: string): Promise<LoadedGrant | undefined> =>
  (await loadWhere(db, scope, sql`id = ${id} and ${ownGrant(scope, actor)}`))[0]

export const lockOwnGrant = async (tx: Tx, scope: TenantScope, actor: PortalActor, id: string): Promise<Locked<GrantRow> | undefined> =>
  await lockRow(tx.q.selectFrom('benefit_grants').selectAll().where('organization_id', '=', inScope(scope)).where('id', '=', id).where(ownGrant(scope, actor)))
