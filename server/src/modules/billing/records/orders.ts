import { ResourceNotFound, type CustomerOrder, type Order } from '@bursar/contract'
import type { PortalActor, TenantScope } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { presentBareProduct, presentDiscountBase, presentProduct } from '../../catalog/index.ts'
import { presentCustomer } from '../../customers/index.ts'
import { permit, presentSeller } from '../../organizations/index.ts'
import { refundable } from '../calc/totals.ts'
import { countInvoices, findOrder, findOrderRow, selectBought, takenInvoiceNumbers, type BoughtOrder, type LoadedOrder, type OrderRow } from './orders.sql.ts'

const paid: readonly OrderRow['status'][] = ['paid', 'refunded', 'partially_refunded']

/** Whether the order was paid, including orders that were refunded since. */
export const isPaid = ({ status }: Pick<OrderRow, 'status'>): boolean => paid.includes(status)

const presentCommon = ({ order, items }: LoadedOrder) => ({
  ...order,
  ...refundable(order),
  paid: isPaid(order),
  items: items.map((item) => ({ ...item, modified_at: null })),
})

/** Converts an order to its representation in the seller API. */
export const presentOrder = (loaded: LoadedOrder): Order => ({
  ...presentCommon(loaded),
  platform_fee_amount: 0,
  platform_fee_currency: null,
  customer: presentCustomer(loaded.customer),
  product: loaded.product && presentBareProduct(loaded.product),
  discount: loaded.discount && presentDiscountBase(loaded.discount),
  subscription: loaded.subscription,
})

/** Converts an order to its representation in the portal, with the product and its seller. */
export const presentCustomerOrder = (order: BoughtOrder): CustomerOrder => ({
  ...presentCommon(order),
  product: order.bought && { ...presentProduct(order.bought), organization: presentSeller(order.seller) },
  subscription: order.subscription,
})

/** Finds an order by id. Throws if it is out of scope or the caller may not read sales. */
export const requireOrder = async (db: Db, scope: TenantScope, id: string): Promise<LoadedOrder> => {
  const found = await findOrder(db, scope, id)
  if (!found) throw new ResourceNotFound()
  permit(scope, found.order.organization_id, 'sales:read')
  return found
}

/** Finds the row of an order by id, without its related records. Throws like `requireOrder`. */
export const requireOrderRow = async (db: Db, scope: TenantScope, id: string): Promise<OrderRow> => {
  const order = await findOrderRow(db, scope, id)
  if (!order) throw new ResourceNotFound()
  permit(scope, order.organization_id, 'sales:read')
  return order
}

/** Finds an order of the customer in the portal. Throws the same 404 for another customer's order, for a draft and for an unknown id. */
export const findOwn = async (db: Db, scope: TenantScope, { customer_id }: PortalActor, id: string): Promise<BoughtOrder> => {
  const [found] = await selectBought(db, scope, [id])
  if (!found || !isOwn(found.order, customer_id)) throw new ResourceNotFound()
  return found
}

/** True if the order belongs to the customer and is no draft. */
export const isOwn = (order: OrderRow, customer_id: string) => order.customer_id === customer_id && order.status !== 'draft'

/** The ids under which events about an order are stored. */
export const subjectOf = ({ organization_id, id, customer_id }: OrderRow) => ({ organization_id, resource_id: id, customer_id })

/**
 * Assigns the next invoice number of a customer. Concurrent callers wait for each other. If a transaction rolls back,
 * its number is assigned to the next order, so the sequence has no gaps.
 */
export const nextInvoiceNumber = async (tx: Tx, organization: { id: string; slug: string }, customer: { id: string }): Promise<string> =>
  (await nextInvoiceNumbers(tx, organization, [{ customer_id: customer.id }]))[0]!

/**
 * Assigns the next invoice numbers of several orders, in their sequence, like `nextInvoiceNumber`. The number of
 * statements does not depend on the number of orders.
 */
export const nextInvoiceNumbers = async (
  tx: Tx,
  organization: { id: string; slug: string },
  orders: readonly { readonly customer_id: string }[],
): Promise<string[]> => {
  const prefix = organization.slug
    .replace(/[^a-z0-9]/gi, '')
    .toUpperCase()
    .slice(0, 12)
  const owners = orders.map(({ customer_id }) => customer_id)
  const last = await countInvoices(tx, organization.id, owners)
  // A customer with several orders gets consecutive numbers. The counter already counts all of them.
  const sequences = owners.map((owner, at) => last.get(owner)! - owners.slice(at + 1).filter((later) => later === owner).length)
  const found: (string | undefined)[] = owners.map(() => undefined)
  // The ids of two customers may result in the same letters. The second customer then gets the next free letters.
  for (let turn = 0; found.includes(undefined); turn++) {
    const numbers = owners.map((owner, at) => `${prefix}-${lettersOf(owner, turn)}-${String(sequences[at]).padStart(4, '0')}`)
    const taken = await takenInvoiceNumbers(
      tx,
      organization.id,
      numbers.filter((_, at) => found[at] === undefined),
    )
    numbers.forEach((number, at) => {
      if (found[at] === undefined && !taken.has(number) && !found.includes(number)) found[at] = number
    })
  }
  return found as string[]
}

/** Derives the receipt number from the invoice number. Only the prefix differs. */
export const receiptNumberOf = (invoice_number: string): string => invoice_number.replace(/^[^-]*/, 'RCPT')

const letters = 8

/** Derives eight letters from a customer id: the random end of the id in base 26. */
const lettersOf = (id: string, turn: number): string => {
  let rest = (BigInt(`0x${id.replaceAll('-', '')}`) + BigInt(turn)) % 26n ** BigInt(letters)
  let text = ''
  for (let at = 0; at < letters; at++, rest /= 26n) text = String.fromCharCode(65 + Number(rest % 26n)) + text
  return text
}
