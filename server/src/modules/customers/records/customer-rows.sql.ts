import type { Address, CustomerType, Metadata, PaymentMethod, TaxIDFormat } from '@bursar/contract'
import { sql, type Generated, type RawBuilder, type Selectable } from 'kysely'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { rowFromJson } from '../../../platform/postgres/json-rows.ts'

export interface CustomerTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  deleted_at: Date | null
  type: CustomerType
  email: string | null
  email_verified: boolean
  external_id: string | null
  name: string | null
  billing_name: string | null
  billing_address: Address | null
  tax_id: string | null
  tax_id_format: TaxIDFormat | null
  locale: string | null
  metadata: Metadata
  default_payment_method_id: string | null
  first_user_event_at: Date | null
  forgotten_at: Date | null
  /** Test clock of the customer in the sandbox. Null for the wall clock. */
  clock_id: string | null
  /** `pure_holder` and `becomes_team` are set for the member migration. `exists` and the customer export must use `pure_holder` in the same way. */
  pure_holder: boolean
  becomes_team: boolean
  /** Time at which the customer was reported as deleted because it became a member. Null for all other customers. */
  tombstoned_at: Generated<Date | null>
}

export interface MethodTable {
  organization_id: string
  id: string
  created_at: Date
  modified_at: Date | null
  customer_id: string
  processor: PaymentMethod['processor']
  type: string
  method_metadata: unknown
}

/** A customer as shown in its organization's member phase, without the columns of the member migration. */
export type CustomerRow = Selectable<Omit<CustomerTable, 'pure_holder' | 'becomes_team' | 'tombstoned_at'>>

/** Columns of the member migration. They are internal and never part of an API response. */
export interface Marked {
  readonly only_holds: boolean
  readonly buys_seats: boolean
}

/** Returns the organizations in scope that use the member model (phase 2). */
export const enabled = (scope: TenantScope): string[] => organizationIds(scope).filter((id) => scope.phases.get(id) === 'phase2')

/** SQL for the type of a customer in its organization's member phase. In phase 2, a customer that bought seats is a team. */
export const typed = (scope: TenantScope, customers = 'customers') => {
  const column = (name: string) => sql.ref(`${customers}.${name}`)
  return sql<CustomerType>`case when ${column('becomes_team')} and ${column('organization_id')} = any(${enabled(scope)}::uuid[]) then 'team' else ${column('type')} end`
}

/** The columns of `CustomerRow` except `type`, which depends on the member phase. */
export const plain = [
  'organization_id',
  'id',
  'created_at',
  'modified_at',
  'deleted_at',
  'email',
  'email_verified',
  'external_id',
  'name',
  'billing_name',
  'billing_address',
  'tax_id',
  'tax_id_format',
  'locale',
  'metadata',
  'default_payment_method_id',
  'first_user_event_at',
  'forgotten_at',
  'clock_id',
] as const

/**
 * SQL for a `CustomerRow` as JSON, even of a deleted customer. `key` names the columns of another table that reference
 * the customer. The caller must restrict that table to the scope.
 */
export const customerJson = (scope: TenantScope, key: { readonly organization_id: string; readonly id: string }): RawBuilder<unknown> => sql`(
  select json_build_object(${sql.join(plain.map((name) => sql`${sql.lit(name)}, ${sql.ref(`c.${name}`)}`))}, 'type', ${typed(scope, 'c')})
  from customers c where c.organization_id = ${sql.ref(key.organization_id)} and c.id = ${sql.ref(key.id)})`

/** SQL for the columns of a customer, in a query of the table `customers`. */
export const customerColumns = (scope: TenantScope) => sql`${sql.join(plain.map((column) => sql.ref(`customers.${column}`)))}, ${typed(scope)} as type`

export const customerFromJson = rowFromJson<CustomerRow>({
  created_at: true,
  modified_at: true,
  deleted_at: true,
  first_user_event_at: true,
  forgotten_at: true,
})

/** SQL condition: the customer is not deleted, and is not a pure seat holder of an organization in phase 2. */
export const exists = (scope: TenantScope, customers = 'customers') => {
  const column = (name: string) => sql.ref(`${customers}.${name}`)
  return sql<boolean>`(${column('deleted_at')} is null and (not ${column('pure_holder')} or ${column('organization_id')} <> all(${enabled(scope)}::uuid[])))`
}

/** SQL condition: the negation of `exists`. Matching rows are few and have their own index. */
export const isHidden = (scope: TenantScope, customers: string) => {
  const column = (name: string) => sql.ref(`${customers}.${name}`)
  return sql<boolean>`(${column('deleted_at')} is not null or (${column('pure_holder')} and ${column('organization_id')} = any(${enabled(scope)}::uuid[])))`
}
