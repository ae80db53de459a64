import { invalidAt, InvalidRequest, type Invalid, type OrderCreate } from '@bursar/contract'
import { narrowed, type TenantScope } from '../../../kernel/actors.ts'
import { chargeable, stepOf } from '../../../kernel/money.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { loadProducts, readAnswers, type LoadedProduct, type PriceRow } from '../../catalog/index.ts'
import { becomeBuyer, lockCustomers, type CustomerRow } from '../../customers/index.ts'
import { chooseOrganization, findLivingOrganization, permit, type OrganizationRow } from '../../organizations/index.ts'
import { totalsOf } from '../calc/totals.ts'
import { labelOf } from '../invoicing/applying.ts'
import { issue } from '../invoicing/issuing.ts'
import type { LoadedOrder } from '../records/orders.sql.ts'
import { needTax, taxableLines, TaxUnknown } from '../taxes/taxes.ts'

/**
 * Creates a draft order with all amounts including tax. A draft owes nothing and is not in the ledger. It gets no
 * invoice number before it is finalized. Only the seller sees it.
 */
export const createDraftOrder = async (wall: Tx, scope: TenantScope, body: OrderCreate): Promise<LoadedOrder> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'sales:manage')
  const seller = (await findLivingOrganization(wall, { id: organization_id }))!
  const [customer] = await lockCustomers(wall, narrowed(scope, organization_id), { id: body.customer_id })
  const [product] = await loadProducts(wall, [{ tenant: organization_id, id: body.product_id }])
  const currency = body.currency ?? seller.default_presentment_currency
  const { price, problems } = priceOf(product, currency, body)
  const answered = readAnswers(product?.fields ?? [], body.custom_field_data ?? {}, { complete: false })
  if (!customer) problems.push(invalidAt(['body', 'customer_id'], 'There is no customer with this id.', body.customer_id))
  problems.push(...amountProblems(currency, body.amount), ...answered.problems)
  if (!customer || !product || !price || problems.length > 0) throw new InvalidRequest(problems)
  const tx = await inTimeOf(wall, customer)
  await becomeBuyer(tx, scope, customer, { seats: false })
  const { name } = product.product
  const amount = body.amount ?? price.price_amount!
  const quote = amount === 0 ? null : await taxOn(tx, seller, customer, price, amount)
  const line = { label: labelOf(name, null), amount, proration: false, product_price_id: price.id }
  // The customer's credit and debt do not change this total, because the seller has approved it. Only automatic orders,
  // such as renewals, use credit and collect debt.
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

/** Returns the price of a draft. The product must be on sale, one-time, and have exactly one fixed price in the currency. */
const priceOf = (product: LoadedProduct | undefined, currency: string, body: OrderCreate): { price: PriceRow | undefined; problems: Invalid[] } => {
  const wrong = (msg: string, field: 'product_id' | 'currency' = 'product_id') => ({
    price: undefined,
    problems: [invalidAt(['body', field], msg, body[field] ?? undefined)],
  })
  if (!product) return wrong('There is no product with this id.')
  const { is_archived, visibility, recurring_interval } = product.product
  if (is_archived) return wrong('This product is archived.')
  if (visibility === 'draft') return wrong('This product is a draft. Change its visibility first.')
  if (recurring_interval !== null) return wrong('Draft orders support one-time products only. This product is a subscription.')
  const prices = product.prices.filter(({ price_currency }) => price_currency === currency)
  if (prices.length === 0) return wrong('The product has no price in this currency.', 'currency')
  const [price, another] = prices
  return price!.amount_type === 'fixed' && another === undefined
    ? { price, problems: [] }
    : wrong('Draft orders support fixed prices only. This product has another kind of price.')
}

const amountProblems = (currency: string, amount: number | null | undefined): Invalid[] => {
  if (typeof amount !== 'number' || amount === 0) return []
  const { minimum, maximum } = chargeable(currency)
  return amount >= minimum && amount <= maximum && amount % stepOf(currency) === 0
    ? []
    : [invalidAt(['body', 'amount'], `Give 0, or an amount between ${minimum} and ${maximum}.`, amount)]
}

/** Determines the tax from the customer's saved address. Throws if the address is incomplete, because the customer is not present to complete it. */
const taxOn = async (tx: Tx, seller: OrganizationRow, customer: CustomerRow, price: PriceRow, amount: number) => {
  try {
    return await needTax(tx, {
      organization_id: seller.id,
      subject: `customer ${customer.id}`,
      currency: price.price_currency,
      lines: taxableLines([{ amount, discount_amount: 0 }]),
      address: customer.billing_address,
      tax_id: customer.tax_id === null ? null : { value: customer.tax_id, format: customer.tax_id_format! },
      behavior_option: price.tax_behavior ?? seller.default_tax_behavior,
    })
  } catch (error) {
    if (!(error instanceof TaxUnknown)) throw error
    throw new InvalidRequest(
      invalidAt(
        ['body', 'customer_id'],
        'The tax cannot be computed, because the billing address of this customer is incomplete. Complete it first.',
        customer.id,
      ),
    )
  }
}
