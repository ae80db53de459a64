import { invalidAt, InvalidRequest, orderUpdated, type Invalid, type OrderCreate } from '@bursar/contract'
import { TaxUnavailable } from '../../../gateways/tax/tax.ts'
import { narrowed, type Reach } from '../../../kernel/actors.ts'
import { chargeable, stepOf } from '../../../kernel/money.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import { loadProducts, readAnswers, type LoadedProduct, type PriceRow } from '../../catalog/index.ts'
import { becomeBuyer, lockCustomers, type CustomerRow } from '../../customers/index.ts'
import { chooseOrganization, findLivingOrganization, permit, type OrganizationRow } from '../../organizations/index.ts'
import { totalsOf } from '../engine/totals.ts'
import { postOrder } from '../ledger/ledger.ts'
import { issue, type Issued } from '../orders/issuing.ts'
import { changeOrder, loadOrders, type LoadedOrder, type OrderRow } from '../orders/orders.sql.ts'
import { presentOrder, subjectOf } from '../orders/orders.ts'
import { needTax, TaxUnknown } from '../taxes/taxes.ts'

/** A draft says all that will be charged, tax included, and owes nothing: it is in no ledger, has no number, and only its seller sees it. */
export const create = async (wall: Tx, reach: Reach, body: OrderCreate): Promise<LoadedOrder> => {
  const organization_id = chooseOrganization(reach, body.organization_id ?? undefined)
  permit(reach, organization_id, 'sales:manage')
  const seller = (await findLivingOrganization(wall, { id: organization_id }))!
  const [customer] = await lockCustomers(wall, narrowed(reach, organization_id), { id: body.customer_id })
  const [product] = await loadProducts(wall, [{ tenant: organization_id, id: body.product_id }])
  const currency = body.currency ?? seller.default_presentment_currency
  const { price, problems } = priceOf(product, currency, body)
  const answered = readAnswers(product?.fields ?? [], body.custom_field_data ?? {}, { complete: false })
  if (!customer) problems.push(invalidAt(['body', 'customer_id'], 'There is no customer with this id.', body.customer_id))
  problems.push(...amountProblems(currency, body.amount), ...answered.problems)
  if (!customer || !product || !price || problems.length > 0) throw new InvalidRequest(problems)
  const tx = await inTimeOf(wall, customer)
  await becomeBuyer(tx, reach, customer, { seats: false })
  const { name } = product.product
  const amount = body.amount ?? price.price_amount!
  const quote = amount === 0 ? null : await taxOn(tx, seller, customer, price)
  const line = { label: name, amount, proration: false, product_price_id: price.id }
  // What the seller has seen is what is charged: credit and debt wait for what is billed by itself.
  const { lines, charge_amount: _, ...figures } = totalsOf({ currency, lines: [line], discount: null, tax: quote, credit: 0, debt: 0 })
  return issue(tx, {
    seller,
    parties: { customer, product: product.product, discount: null, subscription: null },
    status: 'draft',
    billing_reason: 'purchase',
    currency,
    figures,
    lines,
    quote,
    billed_to: {
      billing_name: customer.billing_name ?? customer.name,
      billing_address: customer.billing_address,
      tax_id: customer.tax_id,
      tax_id_format: customer.tax_id_format,
    },
    seats: null,
    checkout_id: null,
    description: body.description ?? name,
    metadata: body.metadata ?? {},
    custom_field_data: answered.answers,
  })
}

/** From here on it is owed, and paid: its place in the ledger comes with the money. Whoever takes it back before that leaves no trace there. */
export const bill = async (tx: Tx, order: Locked<OrderRow>): Promise<void> => {
  await postOrder(tx, { ...order, balance_movement_amount: 0 })
}

/** Nobody has paid it: it is a draft as before, and can be tried again. */
export const reopen = async (tx: Tx, reach: Reach, order: Locked<OrderRow>): Promise<void> => {
  await tellChanged(tx, reach, await changeOrder(tx, order, { status: 'draft' }))
}

/** Says that an order is another than before, and hands it back whole. */
export const tellChanged = async (tx: Tx, reach: Reach, order: Locked<OrderRow>): Promise<Issued> => {
  const loaded = { ...(await loadOrders(tx, reach, [order]))[0]!, order }
  await emit(tx, orderUpdated, subjectOf(order), presentOrder(loaded))
  return loaded
}

/** The one price that a draft can be made at. Its product is on sale, is bought once, and costs the same for everybody. */
const priceOf = (product: LoadedProduct | undefined, currency: string, body: OrderCreate): { price: PriceRow | undefined; problems: Invalid[] } => {
  const wrong = (msg: string, field: 'product_id' | 'currency' = 'product_id') => ({
    price: undefined,
    problems: [invalidAt(['body', field], msg, body[field] ?? undefined)],
  })
  if (!product) return wrong('There is no product with this id.')
  const { is_archived, visibility, recurring_interval } = product.product
  if (is_archived) return wrong('This product is archived.')
  if (visibility === 'draft') return wrong('This product is a draft.')
  if (recurring_interval !== null) return wrong('This product is subscribed to. Only what is sold once can be ordered for somebody.')
  const prices = product.prices.filter(({ price_currency }) => price_currency === currency)
  if (prices.length === 0) return wrong('The product has no price in this currency.', 'currency')
  const [price, another] = prices
  return price!.amount_type === 'fixed' && another === undefined ? { price, problems: [] } : wrong('Only what has a fixed price can be ordered for somebody.')
}

const amountProblems = (currency: string, amount: number | null | undefined): Invalid[] => {
  if (typeof amount !== 'number' || amount === 0) return []
  const { minimum, maximum } = chargeable(currency)
  return amount >= minimum && amount <= maximum && amount % stepOf(currency) === 0
    ? []
    : [invalidAt(['body', 'amount'], `Give nothing, or between ${minimum} and ${maximum}.`, amount)]
}

/** The customer is not there to be asked for an address: what their own does not tell cannot be ordered for them. */
const taxOn = async (tx: Tx, seller: OrganizationRow, customer: CustomerRow, price: PriceRow) => {
  try {
    return await needTax(tx, {
      organization_id: seller.id,
      currency: price.price_currency,
      address: customer.billing_address,
      tax_id: customer.tax_id === null ? null : { value: customer.tax_id, format: customer.tax_id_format! },
      behavior_option: price.tax_behavior ?? seller.default_tax_behavior,
    })
  } catch (error) {
    if (!(error instanceof TaxUnknown || error instanceof TaxUnavailable)) throw error
    throw new InvalidRequest(
      invalidAt(['body', 'customer_id'], 'It cannot be told which tax is due: the billing address of this customer does not say enough.', customer.id),
    )
  }
}
