import { ResourceNotFound, type CustomerCustomerMeter, type CustomerMeter } from '@bursar/contract'
import { type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { addDecimals, negateDecimal, numberOf, readDecimal, writeDecimal } from '../../../kernel/decimals.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { presentCustomer } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { loadConsumed } from '../../usage/index.ts'
import { findCustomerMeter, findOwnMeter, type LoadedCustomerMeter } from './customer-meters.sql.ts'

/** Returns the credits minus the consumed units. The difference is exact before it becomes a number. */
export const balanceOf = (consumed: string, credited_units: number): number =>
  numberOf(writeDecimal(addDecimals(readDecimal(String(credited_units)), negateDecimal(readDecimal(consumed)))))

type Used = { readonly loaded: LoadedCustomerMeter; readonly consumed: string }

/** Loads the usage of customer meters. It contains all usage of answered requests. */
export const withConsumed = async (db: Db, scope: TenantScope, loaded: readonly LoadedCustomerMeter[]): Promise<Used[]> => {
  const consumed = await loadConsumed(
    db,
    scope,
    loaded.map(({ organization_id, customer_id, meter, since }) => ({ organization_id, customer_id, meter, since, until: null })),
  )
  return loaded.map((one, at) => ({ loaded: one, consumed: consumed[at]! }))
}

const unitsOf = ({ loaded: { id, created_at, modified_at, customer_id, meter, credited_units }, consumed }: Used) => ({
  id,
  created_at,
  modified_at,
  customer_id,
  meter_id: meter.id,
  consumed_units: numberOf(consumed),
  credited_units,
  balance: balanceOf(consumed, credited_units),
})

export const presentCustomerMeter = (used: Used): CustomerMeter => ({
  ...unitsOf(used),
  customer: presentCustomer(used.loaded.customer),
  meter: used.loaded.meter,
})

/** Presents a customer meter in the portal, without the filter and the metadata of the meter. */
export const presentOwnMeter = (used: Used): CustomerCustomerMeter => {
  const { id, created_at, modified_at, name } = used.loaded.meter
  return { ...unitsOf(used), meter: { id, created_at, modified_at, name } }
}

export const requireCustomerMeter = async (db: Db, scope: TenantScope, id: string): Promise<LoadedCustomerMeter> => {
  const found = await findCustomerMeter(db, scope, id)
  if (!found) throw new ResourceNotFound()
  permit(scope, found.organization_id, 'customers:read')
  return found
}

export const requireOwnMeter = async (db: Db, scope: TenantScope, actor: PortalActor, id: string): Promise<LoadedCustomerMeter> => {
  const found = await findOwnMeter(db, scope, actor, id)
  if (!found) throw new ResourceNotFound()
  return found
}
