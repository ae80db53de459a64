import { orderUpdated } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { BusinessTx, Locked } from '../../../platform/postgres/postgres.ts'
import { postOrder } from '../ledger/ledger.ts'
import { changeOrder, loadOrders, type OrderRow } from '../records/orders.sql.ts'
import { presentOrder, subjectOf } from '../records/orders.ts'
import type { Issued } from './issuing.ts'

/**
 * Posts a finalized draft to the ledger. Called when the payment succeeds, so that a failed finalization leaves no
 * ledger entries.
 */
export const billDraftOrder = async (tx: BusinessTx, order: Locked<OrderRow>): Promise<void> => {
  await postOrder(tx, { ...order, balance_movement_amount: 0 })
}

/** Changes an order whose payment failed back to a draft, so that it can be finalized again. */
export const reopen = async (tx: BusinessTx, scope: TenantScope, order: Locked<OrderRow>): Promise<void> => {
  await tellChanged(tx, scope, await changeOrder(tx, order, { status: 'draft' }))
}

/** Emits `order.updated` and returns the loaded order. */
export const tellChanged = async (tx: BusinessTx, scope: TenantScope, order: Locked<OrderRow>): Promise<Issued> => {
  const loaded = { ...(await loadOrders(tx, scope, [order]))[0]!, order }
  await emit(tx, orderUpdated, subjectOf(order), presentOrder(loaded))
  return loaded
}
