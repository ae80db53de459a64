import { invalidAt, InvalidRequest, readState, statesOfZipCode, type Address, type CheckoutUpdatePublic, type Invalid } from '@bursar/contract'
import type { z } from 'zod'
import { chargeable, stepOf } from '../../../kernel/money.ts'
import { TaxUnavailable } from '../../../gateways/tax/tax.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { checkVatNumber, QuantityBeyondTiers, quoteTax, taxableLines, tierAmount } from '../../billing/index.ts'
import type { DiscountRow, PriceRow } from '../../catalog/index.ts'
import { changeBilling } from '../../customers/index.ts'
import type { CheckoutRow } from './checkouts.sql.ts'
import { countingDiscount, discountedLines, figure, pricesIn } from './figures.ts'
import type { Seller } from '../records/sellers.sql.ts'
import type { Opened } from './loading.sql.ts'
import { basisOf } from './opening.ts'

type BillingState = Pick<CheckoutRow, 'customer_billing_address' | 'customer_tax_id' | 'customer_tax_id_format'>
type CheckedState = Pick<CheckoutRow, 'customer_tax_id' | 'customer_tax_id_status'>
type BillingWish = Pick<z.output<typeof CheckoutUpdatePublic>, 'customer_billing_address' | 'customer_tax_id'>

/** Validates the billing address and tax id of a checkout by the same rules as those of a customer. */
export const readBilling = (state: BillingState, body: BillingWish): { changes: BillingState; problems: Invalid[] } => {
  const { changes, problems } = changeBilling(
    { billing_address: state.customer_billing_address, tax_id: state.customer_tax_id, tax_id_format: state.customer_tax_id_format },
    { billing_address: body.customer_billing_address ?? undefined, tax_id: body.customer_tax_id },
  )
  const address = changes.billing_address ?? state.customer_billing_address
  return {
    changes: {
      customer_billing_address: address && placeByZipCode(address),
      customer_tax_id: changes.tax_id === undefined ? state.customer_tax_id : changes.tax_id,
      customer_tax_id_format: changes.tax_id_format === undefined ? state.customer_tax_id_format : changes.tax_id_format,
    },
    problems: problems.map((problem) => ({
      ...problem,
      loc: problem.loc.map((part) => (part === 'billing_address' ? 'customer_billing_address' : part === 'tax_id' ? 'customer_tax_id' : part)),
    })),
  }
}

/**
 * Checks a VAT number of the European Union with the service of the deployment, if it has one. Only a definite answer
 * is a problem. The status of a number that was checked before stays, until the buyer confirms.
 */
export const checkTaxId = async (
  tx: Tx,
  { config, hasher }: Platform,
  organization_id: string,
  before: CheckedState,
  { customer_tax_id, customer_tax_id_format }: BillingState,
  { isAsked }: { isAsked: boolean },
): Promise<{ status: CheckoutRow['customer_tax_id_status']; problems: Invalid[] }> => {
  if (customer_tax_id === null) return { status: null, problems: [] }
  const known = customer_tax_id === before.customer_tax_id ? before.customer_tax_id_status : null
  if (!config.vat || !isAsked || customer_tax_id_format !== 'eu_vat' || known === 'valid') return { status: known, problems: [] }
  const status = await checkVatNumber(tx, hasher, { organization_id, number: customer_tax_id })
  if (status !== 'invalid') return { status, problems: [] }
  const said = 'This VAT number is not registered. Check it, or buy without a VAT number.'
  return { status: known, problems: [invalidAt(['body', 'customer_tax_id'], said, customer_tax_id)] }
}

/**
 * Fills in the state of an address in the US by its ZIP code, because tax depends on the state. The ZIP code takes
 * precedence over a state that it contradicts. If two states share the prefix of the ZIP code, keeps a given one of them.
 */
const placeByZipCode = (address: Address): Address => {
  const found = address.country === 'US' ? statesOfZipCode(address.postal_code ?? '') : []
  if (found.length === 0) return address
  const given = readState('US', address.state)
  // Keeps the spelling of the given state.
  if (given !== null && found.includes(given)) return address
  return { ...address, state: found.length === 1 ? found[0]! : null }
}

/** Returns the requested currency if it has a price. Without a request, returns the seller's default currency or the first that has a price. */
export const chooseCurrency = (prices: readonly PriceRow[], wanted: string | undefined, seller: Seller): string | undefined => {
  const offered = prices.map(({ price_currency }) => price_currency)
  if (wanted !== undefined) return offered.includes(wanted) ? wanted : undefined
  return offered.includes(seller.default_presentment_currency) ? seller.default_presentment_currency : offered[0]
}

type Choice = Pick<z.output<typeof CheckoutUpdatePublic>, 'amount' | 'seats'> & { min_seats?: number | null | undefined; max_seats?: number | null | undefined }

/** Validates the custom amount and the seats against the prices. Uses the minimum number of seats if the request has none. */
export const fit = (checkout: CheckoutRow, { prices }: { prices: readonly PriceRow[] }, body: Choice): { checkout: CheckoutRow; problems: Invalid[] } => {
  const problems: Invalid[] = []
  const own = pricesIn(prices, checkout.currency)
  const custom = own.find(({ amount_type }) => amount_type === 'custom')
  const seated = own.find(({ amount_type }) => amount_type === 'seat_based')
  const { min_seats, max_seats } = checkout
  let { chosen_amount, seats } = checkout
  if (!custom) chosen_amount = null
  else if (chosen_amount !== null) {
    // Zero is allowed only if the minimum of the price is zero. All other amounts must be within the processor's limits.
    const { minimum, maximum } = chargeable(checkout.currency)
    const least = Math.max(custom.minimum_amount!, minimum)
    const most = custom.maximum_amount ?? maximum
    const nothing = chosen_amount === 0 && custom.minimum_amount === 0
    if (!nothing && (chosen_amount < least || chosen_amount > most || chosen_amount % stepOf(checkout.currency) !== 0))
      problems.push(
        invalidAt(['body', 'amount'], `Choose ${custom.minimum_amount === 0 ? '0, or ' : ''}an amount between ${least} and ${most}.`, chosen_amount),
      )
  }
  if (!seated) {
    for (const field of ['seats', 'min_seats', 'max_seats'] as const)
      if (typeof body[field] === 'number') problems.push(invalidAt(['body', field], 'This product is not priced per seat.', body[field]))
    // Keeps the seller's bounds, because the buyer may switch back to a product with seats.
    seats = null
  } else {
    const { tiers } = seated.seat_tiers!
    const least = Math.max(tiers[0]!.min_seats, min_seats ?? 1)
    const most = Math.min(tiers.at(-1)!.max_seats ?? 10_000, max_seats ?? 10_000)
    seats ??= least
    if (seats < least || seats > most)
      problems.push(invalidAt(['body', typeof body.seats === 'number' ? 'seats' : 'min_seats'], `Between ${least} and ${most} seats can be bought.`, seats))
    else
      try {
        tierAmount(seated.seat_tiers!, seats)
      } catch (error) {
        if (!(error instanceof QuantityBeyondTiers)) throw error
        problems.push(invalidAt(['body', 'seats'], error.message, seats))
      }
  }
  return { checkout: { ...checkout, chosen_amount, seats }, problems }
}

/** Recomputes all amounts of a checkout. With `strict`, a discount that does not apply is an error. Otherwise the discount is removed. */
export const figured = async (tx: Tx, opened: Opened, { strict }: { strict: boolean }): Promise<Opened> => {
  const { checkout, seller } = opened
  const now = opened.checkout.modified_at ?? opened.checkout.created_at
  const product = opened.products.find((one) => one.product.id === checkout.product_id)!
  const [price] = pricesIn(product.prices, checkout.currency)
  const basis = basisOf(opened, now)
  const counting = countingDiscount(basis)
  if (strict && checkout.discount_id !== null && (!counting || isUsedUp(counting)))
    throw new InvalidRequest(
      invalidAt(['body', 'discount_id'], 'This discount does not exist, or does not apply to this product at the moment.', checkout.discount_id),
    )
  const discount = counting ?? null
  const question = {
    organization_id: seller.id,
    // The id of a new checkout differs each time its transaction runs, so it is not part of the question.
    subject: 'checkout',
    currency: checkout.currency,
    lines: taxableLines(discountedLines({ ...basis, discount })),
    address: checkout.customer_billing_address,
    tax_id: checkout.customer_tax_id === null ? null : { value: checkout.customer_tax_id, format: checkout.customer_tax_id_format! },
    behavior_option: price?.tax_behavior ?? seller.default_tax_behavior,
  }
  // A quote of the tax service stays valid for unchanged lines of the same buyer, until it expires.
  const tax = await quote(tx, question, checkout.tax)
  const { stored } = figure({ ...basis, discount, checkout: { ...checkout, tax } })
  return { ...opened, discount, checkout: { ...checkout, tax, discount_id: discount?.id ?? null, ...stored } }
}

export const isUsedUp = ({ max_redemptions, redemptions_count }: DiscountRow) => max_redemptions !== null && redemptions_count >= max_redemptions

/** Returns the tax, or null if it cannot be determined now. Null means unknown, not zero. */
const quote = async (tx: Tx, question: Parameters<typeof quoteTax>[2], known: CheckoutRow['tax']) => {
  try {
    return await quoteTax(tx, null, question, { quote: known, now: tx.clock.wall() })
  } catch (error) {
    if (error instanceof TaxUnavailable) return null
    throw error
  }
}
