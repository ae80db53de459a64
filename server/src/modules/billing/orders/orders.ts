import { isDeepStrictEqual } from 'node:util'
import {
  invalidAt,
  InvalidRequest,
  orderUpdated,
  ResourceNotFound,
  type Address,
  type CustomerOrder,
  type Invalid,
  type Order,
  type OrderUpdate,
} from '@bursar/contract'
import type { z } from 'zod'
import type { PortalActor, Reach } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { referred } from '../../../platform/postgres/lists.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { loadProducts, presentBareProduct, presentDiscountBase, presentProduct, type LoadedProduct } from '../../catalog/index.ts'
import { completeAddress, holdStanding, presentCustomer } from '../../customers/index.ts'
import { findOrganization, permit, presentSeller, type OrganizationRow } from '../../organizations/index.ts'
import { remakeInvoice } from '../documents/remaking.ts'
import { refundable } from '../engine/totals.ts'
import { changeOrder, countInvoice, findOrder, isInvoiceNumberTaken, loadOrders, lockOrder, type LoadedOrder, type OrderRow } from './orders.sql.ts'

const paid: readonly OrderRow['status'][] = ['paid', 'refunded', 'partially_refunded']

/** It was paid; also where it was given back since. */
export const isPaid = ({ status }: Pick<OrderRow, 'status'>): boolean => paid.includes(status)

const presentCommon = ({ order, items }: LoadedOrder) => ({
  ...order,
  ...refundable(order),
  paid: isPaid(order),
  items: items.map((item) => ({ ...item, modified_at: null })),
})

/** The order as its seller sees it. */
export const presentOrder = (loaded: LoadedOrder): Order => ({
  ...presentCommon(loaded),
  platform_fee_amount: 0,
  platform_fee_currency: null,
  customer: presentCustomer(loaded.customer),
  product: loaded.product && presentBareProduct(loaded.product),
  discount: loaded.discount && presentDiscountBase(loaded.discount),
  subscription: loaded.subscription,
})

/** The order as its buyer sees it: with the product as it is on sale, and who sells it. */
export const presentCustomerOrder = (loaded: LoadedOrder, product: LoadedProduct | null, seller: OrganizationRow): CustomerOrder => ({
  ...presentCommon(loaded),
  product: product && { ...presentProduct(product), organization: presentSeller(seller) },
  subscription: loaded.subscription,
})

/** Orders of one seller for the eyes of who bought them. */
export const showToBuyer = async (db: Db, reach: Reach, { organization_id }: PortalActor, orders: readonly LoadedOrder[]): Promise<CustomerOrder[]> => {
  const keys = referred(
    orders.map(({ order }) => order),
    ({ product_id }) => product_id,
  )
  const [seller, products] = await Promise.all([findOrganization(db, reach, organization_id), loadProducts(db, keys)])
  return orders.map((loaded) => presentCustomerOrder(loaded, products.find(({ product }) => product.id === loaded.order.product_id) ?? null, seller!))
}

/** The one order that a caller means, if the caller may see it. */
export const find = async (db: Db, reach: Reach, id: string): Promise<LoadedOrder> => {
  const found = await findOrder(db, reach, id)
  if (!found) throw new ResourceNotFound()
  permit(reach, found.order.organization_id, 'sales:read')
  return found
}

/** An order of the customer who stands in the portal; somebody else's is answered like none, and so is a draft. */
export const findOwn = async (db: Db, reach: Reach, { customer_id }: PortalActor, id: string): Promise<LoadedOrder> => {
  const found = await findOrder(db, reach, id)
  if (!found || !isOwn(found.order, customer_id)) throw new ResourceNotFound()
  return found
}

const isOwn = (order: OrderRow, customer_id: string) => order.customer_id === customer_id && order.status !== 'draft'

type Billing = z.output<typeof OrderUpdate>

/** The seller's door. */
export const update = async (tx: Tx, reach: Reach, id: string, body: Billing): Promise<LoadedOrder> => {
  const order = await lockOrder(tx, reach, id)
  if (!order) throw new ResourceNotFound()
  permit(reach, order.organization_id, 'sales:manage')
  return correct(tx, reach, order, body)
}

/** The buyer's door: whoever pays keeps the billing details. The customer is held first, then the order. */
export const updateOwn = async (tx: Tx, reach: Reach, actor: PortalActor, id: string, body: Billing): Promise<LoadedOrder> => {
  await holdStanding(tx, reach, actor, 'billing:manage')
  const order = await lockOrder(tx, reach, id)
  if (!order || !isOwn(order, actor.customer_id)) throw new ResourceNotFound()
  return correct(tx, reach, order, body)
}

/** Corrects what is given, leaves what is absent, and says so only where something is different. What decided about the tax stays. */
const correct = async (wall: Tx, reach: Reach, order: Locked<OrderRow>, body: Billing): Promise<LoadedOrder> => {
  const tx = await inTimeOf(wall, order)
  const { address, problems } = correctAddress(order.billing_address, body.billing_address)
  if (problems.length > 0) throw new InvalidRequest(problems)
  const billing_name = body.billing_name === undefined ? order.billing_name : body.billing_name
  const changed = billing_name !== order.billing_name || !isDeepStrictEqual(address, order.billing_address)
  const after = changed ? await remakeInvoice(tx, await changeOrder(tx, order, { billing_name, billing_address: address })) : order
  const loaded = (await loadOrders(tx, reach, [after]))[0]!
  if (changed) await emit(tx, orderUpdated, subjectOf(after), presentOrder(loaded))
  return loaded
}

const correctAddress = (current: Address | null, given: Billing['billing_address']): { address: Address | null; problems: Invalid[] } => {
  if (given === undefined) return { address: current, problems: [] }
  const wrong = (field: string[], msg: string, input: unknown) => invalidAt(['body', 'billing_address', ...field], msg, input)
  if (given === null) return { address: current, problems: current ? [wrong([], 'A billing address can be replaced, not removed.', null)] : [] }
  if (current === null) return { address: completeAddress(given), problems: [] }
  // A state that is left out stays.
  const address = completeAddress(given.state === undefined ? { ...given, state: current.state } : given)
  const frozen = (['country', 'state'] as const).filter((field) => address[field] !== current[field])
  return { address, problems: frozen.map((field) => wrong([field], `This decided about the tax, and stays: ${current[field] ?? 'none'}.`, address[field])) }
}

/** Whom events about an order are about. */
export const subjectOf = ({ organization_id, id, customer_id }: OrderRow) => ({ organization_id, resource_id: id, customer_id })

/**
 * Draws the next invoice number of a customer: they follow each other without a gap, however many are drawn at once, and
 * one that is not used, because its transaction was undone, is drawn again.
 */
export const nextInvoiceNumber = async (tx: Tx, organization: { id: string; slug: string }, customer: { id: string }): Promise<string> => {
  const sequence = String(await countInvoice(tx, organization.id, customer.id)).padStart(4, '0')
  const prefix = organization.slug
    .replace(/[^a-z0-9]/gi, '')
    .toUpperCase()
    .slice(0, 12)
  // Two customers may share their letters: the one who comes second takes the next ones.
  for (let turn = 0; ; turn++) {
    const number = `${prefix}-${lettersOf(customer.id, turn)}-${sequence}`
    if (!(await isInvoiceNumberTaken(tx, organization.id, number))) return number
  }
}

/** A receipt is counted with its invoice: the same customer, the same number. */
export const receiptNumberOf = (invoice_number: string): string => invoice_number.replace(/^[^-]*/, 'RCPT')

const letters = 8

/** Letters that stand for a customer: its id, whose end is chance, written in the alphabet. */
const lettersOf = (id: string, turn: number): string => {
  let rest = (BigInt(`0x${id.replaceAll('-', '')}`) + BigInt(turn)) % 26n ** BigInt(letters)
  let text = ''
  for (let at = 0; at < letters; at++, rest /= 26n) text = String.fromCharCode(65 + Number(rest % 26n)) + text
  return text
}
