import type { LineLabel } from '@bursar/views'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { TaxQuestion, TaxQuote } from '../../../gateways/tax/tax.ts'
import { sum } from '../../../kernel/money.ts'
import type { BusinessTx, Locked } from '../../../platform/postgres/postgres.ts'
import type { OrganizationRow } from '../../organizations/index.ts'
import { discountLines, totalsOf } from '../calc/totals.ts'
import { lockBalance, type CustomerBalance } from '../ledger/ledger.ts'
import { issue, reductionOf, type Bill, type Issued } from './issuing.ts'
import type { LoadedSubscription, SubscriptionRow } from '../records/subscriptions.sql.ts'
import type { EntryRow } from '../records/subscription-updates.sql.ts'
import { needTax, quoteTax, taxableLines } from '../taxes/taxes.ts'

/**
 * The locked subscription and its related rows for a renewal. The transaction uses the customer's clock, which may be a
 * test clock.
 */
export interface RenewalContext {
  readonly tx: BusinessTx
  readonly scope: TenantScope
  readonly seller: OrganizationRow
  readonly subscription: Locked<SubscriptionRow>
  readonly loaded: LoadedSubscription
}

export const lineOf = ({ product_price_id, label, amount }: Pick<EntryRow, 'product_price_id' | 'label' | 'amount'>) => ({
  product_price_id,
  label,
  amount,
  proration: true as const,
})

export type BilledLine = { readonly product_price_id: string; readonly label: LineLabel; readonly amount: number; readonly proration: boolean }

/**
 * Issues an order for a subscription. Applies the discount, the tax of the customer's current address, and the
 * customer's credit or debt. The order is pending, or paid if nothing is left to charge. Throws `TaxUnknown` if the tax
 * cannot be determined, because nothing is billed without tax.
 */
export const billLines = async (
  { tx, seller, subscription, loaded }: RenewalContext,
  lines: readonly BilledLine[],
  how: BillingTerms,
  /**
   * If true, charges nothing now. The total only changes the customer's balance, and the next order collects a
   * resulting debt. Needs no complete address.
   */
  { carried = false } = {},
): Promise<Issued> => {
  const { customer } = loaded
  const { organization_id, currency } = subscription
  const question = taxQuestionOf(seller, { ...loaded, subscription }, lines)
  // An order that gives a credit needs no complete address.
  const quote = !carried && sum(lines.map(({ amount }) => amount)) > 0 ? await needTax(tx, question) : await quoteTax(tx, null, question)
  const balance = await lockBalance(tx, organization_id, customer.id, currency)
  return issue(tx, billOf(seller, { ...loaded, subscription }, lines, { ...how, quote, balance, carried }))
}

/** Why and for which period an order is billed, and when it is due. */
export type BillingTerms = Pick<Bill, 'billing_reason' | 'period' | 'due'> & Partial<Pick<Bill, 'seats'>>

/** Returns the question to the tax provider about an order of a subscription. */
export const taxQuestionOf = (
  seller: OrganizationRow,
  { subscription, customer, prices, discount }: LoadedSubscription,
  lines: readonly BilledLine[],
): TaxQuestion => ({
  organization_id: subscription.organization_id,
  subject: `subscription ${subscription.id}`,
  currency: subscription.currency,
  lines: taxableLines(discountLines(lines, discount && reductionOf(discount), subscription.currency)),
  address: customer.billing_address,
  tax_id: customer.tax_id === null ? null : { value: customer.tax_id, format: customer.tax_id_format! },
  behavior_option: subscription.tax_behavior ?? prices[0]?.tax_behavior ?? seller.default_tax_behavior,
})

/** Computes the bill of a subscription's order from its lines, the quoted tax and the customer's locked balance. */
export const billOf = (
  seller: OrganizationRow,
  { subscription, customer, product, discount }: LoadedSubscription,
  lines: readonly BilledLine[],
  { quote, balance, carried, ...how }: BillingTerms & { quote: TaxQuote | null; balance: Locked<CustomerBalance>; carried: boolean },
): Bill => {
  const { currency } = subscription
  const {
    lines: figured,
    charge_amount,
    ...figures
  } = totalsOf({ currency, lines, discount: discount && reductionOf(discount), tax: quote, carried, ...balance })
  return {
    seller,
    parties: { customer, product: product.product, discount, subscription },
    status: charge_amount > 0 ? 'pending' : 'paid',
    currency,
    figures,
    lines: figured.map(({ total_amount: _, ...line }) => line),
    quote,
    billed_to: {
      billing_name: customer.billing_name ?? customer.name,
      billing_address: customer.billing_address,
      tax_id: customer.tax_id,
      tax_id_format: customer.tax_id_format,
    },
    seats: subscription.seats,
    checkout_id: null,
    description: product.product.name,
    metadata: {},
    custom_field_data: {},
    ...how,
    due: charge_amount > 0 ? how.due : undefined,
  }
}
