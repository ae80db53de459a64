import { isDeepStrictEqual } from 'node:util'
import { invalidAt, InvalidRequest, orderUpdated, ResourceNotFound, type Address, type Invalid, type OrderUpdate } from '@bursar/contract'
import type { z } from 'zod'
import type { PortalActor, TenantScope } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { completeAddress, holdStanding } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { remakeInvoice } from '../documents/remaking.ts'
import { changeOrder, lockOrder, selectBought, selectOrders, type BoughtOrder, type LoadedOrder, type OrderRow } from '../records/orders.sql.ts'
import { isOwn, presentOrder, subjectOf } from '../records/orders.ts'

type Billing = z.output<typeof OrderUpdate>

/** Corrects the billing details of an order at the request of the seller. */
export const updateOrder = async (tx: Tx, scope: TenantScope, id: string, body: Billing): Promise<LoadedOrder> => {
  const order = await lockOrder(tx, scope, id)
  if (!order) throw new ResourceNotFound()
  permit(scope, order.organization_id, 'sales:manage')
  return correct(tx, scope, order, body, selectOrders)
}

/**
 * Corrects the billing details of an order at the request of the customer. The role needs `billing:manage`. Lock the
 * customer before the order.
 */
export const updateOwn = async (tx: Tx, scope: TenantScope, actor: PortalActor, id: string, body: Billing): Promise<BoughtOrder> => {
  await holdStanding(tx, scope, actor, 'billing:manage')
  const order = await lockOrder(tx, scope, id)
  if (!order || !isOwn(order, actor.customer_id)) throw new ResourceNotFound()
  return correct(tx, scope, order, body, selectBought)
}

/**
 * Updates the given billing details of an order and keeps absent ones. Emits an event only if a value changes. Values
 * that determined the tax, such as the country, cannot change.
 */
const correct = async <T extends LoadedOrder>(
  wall: Tx,
  scope: TenantScope,
  order: Locked<OrderRow>,
  body: Billing,
  select: (tx: Tx, scope: TenantScope, ids: readonly string[]) => Promise<T[]>,
): Promise<T> => {
  const tx = await inTimeOf(wall, order)
  const { address, problems } = correctAddress(order, body.billing_address)
  if (problems.length > 0) throw new InvalidRequest(problems)
  const billing_name = body.billing_name === undefined ? order.billing_name : body.billing_name
  const changed = billing_name !== order.billing_name || !isDeepStrictEqual(address, order.billing_address)
  const after = changed ? await remakeInvoice(tx, await changeOrder(tx, order, { billing_name, billing_address: address })) : order
  const loaded = (await select(tx, scope, [after.id]))[0]!
  if (changed) await emit(tx, orderUpdated, subjectOf(after), presentOrder(loaded))
  return loaded
}

const correctAddress = (
  { billing_address: current, tax_quote_id }: OrderRow,
  given: Billing['billing_address'],
): { address: Address | null; problems: Invalid[] } => {
  if (given === undefined) return { address: current, problems: [] }
  const wrong = (field: string[], msg: string, input: unknown) => invalidAt(['body', 'billing_address', ...field], msg, input)
  if (given === null) return { address: current, problems: current ? [wrong([], 'A billing address can be replaced, not removed.', null)] : [] }
  if (current === null) return { address: completeAddress(given), problems: [] }
  // If the request has no state, the stored state is kept.
  const address = completeAddress(given.state === undefined ? { ...given, state: current.state } : given)
  // A tax service has computed the tax from the full address. A city or postal code may be added, but not changed.
  const quoted = tax_quote_id === null ? [] : (['city', 'postal_code'] as const).filter((field) => current[field] !== null)
  const frozen = [...(['country', 'state'] as const), ...quoted].filter((field) => address[field] !== current[field])
  return {
    address,
    problems: frozen.map((field) =>
      wrong([field], `This value cannot change, because the tax was computed from it: ${current[field] ?? 'none'}.`, address[field]),
    ),
  }
}
