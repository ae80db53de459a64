import { AmbiguousExternalCustomerID, NoSuchCustomer } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { confine, permit, type Permission } from '../../organizations/index.ts'
import { findCustomers, findMoved, lockCustomers, type Naming } from './customers.sql.ts'
import { type CustomerRow, type Marked } from './customer-rows.sql.ts'

/** Returns the customer with this id or external id. Throws if there is none in scope, or if the caller lacks the permission. */
export const findCustomer = async (db: Db, scope: TenantScope, naming: Naming, permission: Permission = 'customers:read'): Promise<CustomerRow & Marked> =>
  permittedOne(db, scope, naming, await findCustomers(db, scope, naming), permission)

/** Returns the only customer that was found. Throws if there is none in scope, or if the caller lacks the permission. */
export const permittedOne = async <T extends CustomerRow & Marked>(
  db: Db,
  scope: TenantScope,
  naming: Naming,
  found: readonly T[],
  permission: Permission,
): Promise<T> => {
  const customer = await one(db, scope, naming, found)
  permit(scope, customer.organization_id, permission)
  return customer
}

/** Like `findCustomer`, but locks the customer until the transaction ends. Serializes changes of its members, address and type. */
export const requireLockedCustomer = async (
  tx: Tx,
  scope: TenantScope,
  naming: Naming,
  permission: Permission = 'customers:manage',
): Promise<Locked<CustomerRow>> => permittedOne(tx, scope, naming, await lockCustomers(tx, scope, naming), permission)

/** Returns the only match. If phase 2 has turned the customer into a member, the error names that member to permitted callers. */
const one = async <T extends CustomerRow & Marked>(db: Db, scope: TenantScope, naming: Naming, found: readonly T[]): Promise<T> => {
  const [customer, another] = found
  if (customer === undefined) {
    const moved = await findMoved(db, confine(scope, 'customers:read'), naming)
    throw new NoSuchCustomer(undefined, undefined, moved ? { moved } : {})
  }
  if (another !== undefined) throw new AmbiguousExternalCustomerID()
  if (customer.only_holds) scope.notice?.(customer.organization_id, 'fetched_holder')
  return customer
}
