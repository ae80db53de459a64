import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type MemberPhase, type TenantScope } from '../../../kernel/actors.ts'
import { isOneOf } from '../../../platform/postgres/parts.sql.ts'
import { customerColumns } from './customer-rows.sql.ts'

/** Columns of a seat or grant, which has a payer and a holder. Only this file decides which of them is shown as the customer. */
export interface HolderColumns {
  readonly buyer_customer_id: string
  /** Customer that holds the seat or grant. Null if the holder is a member of the buyer, or the buyer itself. */
  readonly holder_customer_id: string | null
}

/** Returns the customer id shown on a seat or grant: the payer in phase 2, and the holder before phase 2. */
export const shownCustomer = ({ buyer_customer_id, holder_customer_id }: HolderColumns, phase: MemberPhase): string =>
  phase === 'phase2' ? buyer_customer_id : (holder_customer_id ?? buyer_customer_id)

/** Records that an integration filtered by a holder as the customer. In phase 2 the same filter would find nothing. */
export const noticeFiltered = (scope: TenantScope, rows: readonly (HolderColumns & { readonly organization_id: string })[]): void => {
  for (const { organization_id, holder_customer_id, buyer_customer_id } of rows)
    if (holder_customer_id !== null && holder_customer_id !== buyer_customer_id) scope.notice?.(organization_id, 'filtered_by_holder')
}

/** Groups the organizations in scope: those in phase 2, and all others. */
const sidesOf = (scope: TenantScope) => Map.groupBy(organizationIds(scope), (id) => (scope.phases.get(id) === 'phase2' ? 'enabled' : 'others'))

/**
 * SQL condition for the seats or grants shown with one of these customers. It has one branch for organizations in phase
 * 2, and one for all others. Each branch can then use its own index. A list queries each organization separately, so its
 * condition has only one branch.
 */
export const ofCustomers = (scope: TenantScope, ids: readonly string[], table: string): RawBuilder<boolean> => {
  const is = (name: keyof HolderColumns) => isOneOf(`${table}.${name}`, ids)
  const shown: Record<'enabled' | 'others', RawBuilder<unknown>> = {
    enabled: is('buyer_customer_id'),
    others: sql`(${is('holder_customer_id')} or (${sql.ref(`${table}.holder_customer_id`)} is null and ${is('buyer_customer_id')}))`,
  }
  const branches = [...sidesOf(scope)].map(([side, organizations]) => sql`(${isOneOf(`${table}.organization_id`, organizations)} and ${shown[side]})`)
  return branches.length === 0 ? sql<boolean>`false` : sql<boolean>`(${sql.join(branches, sql` or `)})`
}

/**
 * Subquery for the customer that a row of `table` is shown with, even if the customer is deleted. Like `ofCustomers`, it
 * has one branch for organizations in phase 2, and one for all others. Each branch finds the customer by its primary key.
 */
export const customerShownOn = (scope: TenantScope, table: string): RawBuilder<unknown> => {
  const column = (name: keyof HolderColumns | 'organization_id') => sql.ref(`${table}.${name}`)
  const shown: Record<'enabled' | 'others', RawBuilder<unknown>> = {
    enabled: column('buyer_customer_id'),
    others: sql`coalesce(${column('holder_customer_id')}, ${column('buyer_customer_id')})`,
  }
  const branch = (id: RawBuilder<unknown>, organizations: readonly string[]) => sql`
    select ${customerColumns(scope)} from customers
    where customers.organization_id = ${column('organization_id')} and customers.id = ${id} and ${isOneOf(column('organization_id'), organizations)}`
  const branches = [...sidesOf(scope)].map(([side, organizations]) => branch(shown[side], organizations))
  return branches.length === 0 ? branch(shown.enabled, []) : sql.join(branches, sql` union all `)
}

/**
 * Subquery for the rows of `table` that are shown with the customer of the outer query, which reads `customers`. The
 * rows meet one of the conditions, of which no two may be true for the same row. Each branch can use its own index.
 */
export const shownWithCustomer = (scope: TenantScope, table: string, conditions: readonly RawBuilder<unknown>[]): RawBuilder<unknown> => {
  const [buyer, holder] = [sql.ref(`${table}.buyer_customer_id`), sql.ref(`${table}.holder_customer_id`)]
  const shown: Record<'enabled' | 'others', readonly RawBuilder<unknown>[]> = {
    enabled: [sql`${buyer} = customers.id`],
    others: [sql`${holder} = customers.id`, sql`${holder} is null and ${buyer} = customers.id`],
  }
  const branch = (is: RawBuilder<unknown>, condition: RawBuilder<unknown>, organizations: readonly string[]) => sql`
    select * from ${sql.table(table)} where ${sql.ref(`${table}.organization_id`)} = customers.organization_id and ${is} and ${condition}
      and ${isOneOf('customers.organization_id', organizations)}`
  const branches = [...sidesOf(scope)].flatMap(([side, organizations]) =>
    shown[side].flatMap((is) => conditions.map((condition) => branch(is, condition, organizations))),
  )
  return branches.length === 0 ? branch(sql`false`, sql`false`, []) : sql.join(branches, sql` union all `)
}
