import type { Meter, PageRequest } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { rowFromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'
import { listRecords, type Filter, type ListSpec, type Records } from '../../../platform/postgres/lists.sql.ts'
import { anyOf, containing, inScope, isOneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { customerFromJson, customerJson, exists, findCustomerIds, shownWithCustomer, type CustomerRow } from '../../customers/index.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    customer_meters: {
      organization_id: string
      id: string
      created_at: Date
      modified_at: Date | null
      customer_id: string
      meter_id: string
      consumed_units: string
      credited_units: number
      due_at: Date | null
    }
  }
}

/** A customer meter without its usage. */
export interface LoadedCustomerMeter {
  readonly organization_id: string
  readonly id: string
  readonly created_at: Date
  readonly modified_at: Date | null
  readonly customer_id: string
  readonly customer: CustomerRow
  readonly meter: Meter
  /** Units that grants in force have credited. */
  readonly credited_units: number
  /** Usage counts from this time on. Null: all usage counts. */
  readonly since: Date | null
}

/** SQL condition: the grant is in force. */
export const inForce = sql`granted_at is not null and is_wanted`

/**
 * SQL for the credits of a customer on a meter, and for the time from which usage counts. The customer is the row
 * `customers` of the outer query. Usage counts from the start of the current period of the subscription that has a price on
 * the meter or credits it. Credits that outlive their period are used up over several periods. So usage counts from the first of these
 * on. Without a subscription, all usage counts.
 */
export const standingOn = (scope: TenantScope, meter_id: RawBuilder<unknown>): RawBuilder<unknown> => {
  const period = sql`coalesce(s.current_meter_period_start, s.current_period_start)`
  const live = sql`s.status in ('trialing', 'active', 'past_due')`
  return sql`
    select credits.units as credited_units,
      case when priced.since is not null or credits.period is not null then least(greatest(priced.since, credits.period), credits.outliving) end as since
    from (
      select coalesce(sum(c.units), 0)::bigint as units, max(${period}) filter (where ${live}) as period,
        min(coalesce(c.period_start, c.created_at)) filter (where c.rollover or c.period_start is null) as outliving
      from (${shownWithCustomer(scope, 'meter_credits', [sql`meter_id = ${meter_id}`])}) c
      join benefit_grants g on g.organization_id = c.organization_id and g.id = c.grant_id and ${inForce}
      left join subscriptions s on s.organization_id = g.organization_id and s.id = g.subscription_id
      where c.rollover or c.period_start is not distinct from g.cycled_for
    ) credits cross join (
      select max(${period}) as since from subscriptions s
      where s.organization_id = customers.organization_id and s.customer_id = customers.id and ${live} and ${hasPriceOn(meter_id)}
    ) priced`
}

/** SQL condition: the subscription `s` has a price on the meter. */
export const hasPriceOn = (meter_id: RawBuilder<unknown>) => sql`exists (
  select from subscription_prices b join product_prices r on r.organization_id = b.organization_id and r.id = b.price_id
  where b.organization_id = s.organization_id and b.subscription_id = s.id and r.meter_id = ${meter_id})`

/** SQL condition on `m`, a row of `customer_meters`: a live subscription has a price on the meter, or a grant in force credits it. */
const isActive = (scope: TenantScope, m: string) => sql`exists (
  select from customers where customers.organization_id = ${sql.ref(`${m}.organization_id`)} and customers.id = ${sql.ref(`${m}.customer_id`)} and (
    exists (select from subscriptions s where s.organization_id = customers.organization_id and s.customer_id = customers.id
      and s.status in ('trialing', 'active', 'past_due') and ${hasPriceOn(sql.ref(`${m}.meter_id`))})
    or exists (select from (${shownWithCustomer(scope, 'benefit_grants', [sql`${inForce} and ${creditsMeter(sql.ref('customers.organization_id'), sql.ref(`${m}.meter_id`))}`])}) g)))`

/** SQL condition on a grant: its benefit credits the meter. The array lets PostgreSQL find the grants of the benefit by an index. */
export const creditsMeter = (organization_id: RawBuilder<unknown>, meter_id: RawBuilder<unknown>) => sql`benefit_id = any(array(
  select f.id from benefits f where f.organization_id = ${organization_id} and f.meter_id = ${meter_id}))`

interface MeterParts {
  readonly customer: JsonRow<CustomerRow>
  readonly meter: JsonRow<Meter>
  readonly standing: JsonRow<Pick<LoadedCustomerMeter, 'credited_units' | 'since'>>
}
type Row = Omit<LoadedCustomerMeter, 'customer' | 'meter' | 'credited_units' | 'since'> & MeterParts

const meterFromJson = rowFromJson<Meter>({ created_at: true, modified_at: true, archived_at: true })
const standingFromJson = rowFromJson<Pick<LoadedCustomerMeter, 'credited_units' | 'since'>>({ since: true })

const records = (scope: TenantScope): Records<Row, LoadedCustomerMeter> => ({
  alias: 'm',
  columns: sql`m.organization_id, m.id, m.created_at, m.modified_at, m.customer_id,
    ${customerJson(scope, { organization_id: 'm.organization_id', id: 'm.customer_id' })} as customer,
    (select to_json(t) from meters t where t.organization_id = m.organization_id and t.id = m.meter_id) as meter,
    (select to_json(standing) from customers cross join lateral (${standingOn(scope, sql.ref('m.meter_id'))}) standing
      where customers.organization_id = m.organization_id and customers.id = m.customer_id) as standing`,
  parse: ({ organization_id, id, created_at, modified_at, customer_id, customer, meter, standing }) => ({
    organization_id,
    id,
    created_at,
    modified_at,
    customer_id,
    customer: customerFromJson(customer),
    meter: meterFromJson(meter),
    ...standingFromJson(standing),
  }),
})

const ofMeter = (column: string) =>
  `(select t.${column} from meters t where t.organization_id = customer_meters.organization_id and t.id = customer_meters.meter_id)`

const sortable = {
  created_at: { expression: 'created_at', type: 'timestamptz' },
  modified_at: { expression: 'coalesce(modified_at, created_at)', type: 'timestamptz' },
  customer_id: { expression: 'customer_id', type: 'uuid' },
  customer_name: {
    expression: `(select coalesce(c.name, '') from customers c where c.organization_id = customer_meters.organization_id and c.id = customer_meters.customer_id)`,
    type: 'text',
  },
  meter_id: { expression: 'meter_id', type: 'uuid' },
  meter_name: { expression: ofMeter('name'), type: 'text' },
  consumed_units: { expression: 'consumed_units', type: 'numeric' },
  credited_units: { expression: 'credited_units', type: 'bigint' },
  balance: { expression: '(credited_units - consumed_units)', type: 'numeric' },
} as const

const list = (scope: TenantScope) =>
  ({
    table: 'customer_meters',
    tenant: 'organization_id',
    id: 'id',
    always: sql`exists (select from customers where customers.organization_id = customer_meters.organization_id and customers.id = customer_meters.customer_id and ${exists(scope)})`,
    sortable,
  }) as const satisfies ListSpec<string>

type Listing = PageRequest & { readonly sorting: readonly string[] }

export interface CustomerMeterFilters {
  readonly organization_id: readonly string[]
  readonly customer_id: readonly string[]
  readonly external_customer_id: readonly string[]
  readonly meter_id: readonly string[]
}

export const listCustomerMeters = async (db: Db, scope: TenantScope, query: CustomerMeterFilters & Listing) => {
  const filters: Filter[] = [...anyOf('customer_id', query.customer_id)]
  if (query.external_customer_id.length > 0) filters.push(isOneOf('customer_id', await findCustomerIds(db, scope, { external_id: query.external_customer_id })))
  filters.push(query.meter_id.length > 0 ? isOneOf('meter_id', query.meter_id) : sql`${sql.raw(ofMeter('archived_at'))} is null`)
  return listRecords(db, list(scope), organizationIds(scope, query.organization_id), query, filters, records(scope))
}

/** Lists the customer meters that the portal shows. */
export const listOwnMeters = (
  db: Db,
  scope: TenantScope,
  { customer_id }: PortalActor,
  query: { readonly meter_id: readonly string[]; readonly query?: string | undefined } & Listing,
) => {
  const filters: Filter[] = [isOneOf('customer_id', [customer_id]), isActive(scope, 'customer_meters'), ...anyOf('meter_id', query.meter_id)]
  if (query.query) filters.push(sql`${sql.raw(ofMeter('name'))} ilike ${containing(query.query)}`)
  return listRecords(db, { ...list(scope), few: true }, organizationIds(scope), query, filters, records(scope))
}

/** Loads customer meters, each with the columns that `more` adds. */
export const selectCustomerMeters = async <More extends object>(
  db: Db,
  scope: TenantScope,
  condition: RawBuilder<unknown>,
  more: RawBuilder<unknown>,
): Promise<(readonly [LoadedCustomerMeter, More])[]> => {
  const { columns, parse } = records(scope)
  const { rows } = await sql<Row & More>`
    select ${columns}${more} from customer_meters m
    where m.organization_id = ${inScope(scope)} and ${condition}
      and exists (select from customers where customers.organization_id = m.organization_id and customers.id = m.customer_id and ${exists(scope)})
    order by m.created_at, m.id`.execute(db.q)
  return rows.map((row) => [parse(row), row])
}

const select = async (db: Db, scope: TenantScope, condition: RawBuilder<unknown>): Promise<LoadedCustomerMeter[]> =>
  (await selectCustomerMeters(db, scope, condition, sql``)).map(([loaded]) => loaded)

export const findCustomerMeter = async (db: Db, scope: TenantScope, id: string): Promise<LoadedCustomerMeter | undefined> =>
  (await select(db, scope, sql`m.id = ${id}`))[0]

export const findOwnMeter = async (db: Db, scope: TenantScope, { customer_id }: PortalActor, id: string): Promise<LoadedCustomerMeter | undefined> =>
  (await select(db, scope, sql`m.id = ${id} and m.customer_id = ${customer_id} and ${isActive(scope, 'm')}`))[0]

/**
 * SQL for the active customer meters of the customer of the outer query, as JSON. The outer query reads `customers`. `more` adds keys and values
 * of the customer meter `m`.
 */
export const activeMetersJson = (scope: TenantScope, more: RawBuilder<unknown> = sql``): RawBuilder<unknown> => sql`
  select coalesce(json_agg(json_build_object('id', m.id, 'created_at', m.created_at, 'modified_at', m.modified_at, 'meter', t,
    'credited_units', standing.credited_units, 'since', standing.since${more}) order by m.created_at, m.id), '[]')
  from customer_meters m join meters t on t.organization_id = m.organization_id and t.id = m.meter_id
  cross join lateral (${standingOn(scope, sql.ref('m.meter_id'))}) standing
  where m.organization_id = customers.organization_id and m.customer_id = customers.id and ${isActive(scope, 'm')}`

/** Stores the units of a customer meter, for sorting. */
export const saveUnits = async (
  tx: Tx,
  { organization_id, id }: { organization_id: string; id: string },
  consumed: string,
  credited: number,
): Promise<void> => {
  await sql`
    update customer_meters set consumed_units = ${consumed}::numeric, credited_units = ${credited}, modified_at = ${tx.clock.wall()}
    where organization_id = ${organization_id} and id = ${id} and (consumed_units, credited_units) is distinct from (${consumed}::numeric, ${credited}::bigint)`.execute(
    tx.q,
  )
}
