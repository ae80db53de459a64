/** The payment methods that pay on the page itself. Stripe offers each only where it fits, for example SEPA debit in euros. */
const onThePage: readonly string[] = ['card', 'link', 'sepa_debit']

/** A payment method that sends the payer to another site, and the purchases that it fits. */
interface Leaving {
  readonly currencies: readonly string[]
  /** The countries whose buyers use it. Null for all countries. */
  readonly countries: readonly string[] | null
  /** The method that it sets up for later charges. Null if it pays only once. */
  readonly sets_up: 'sepa_debit' | null
}

/**
 * The offered payment methods that leave the page, from the documentation of Stripe. iDEAL and Bancontact pay once
 * themselves, but set up a SEPA debit for later charges. Przelewy24 cannot set up later charges. PayPal can, but only
 * after PayPal has approved the account, so that it is offered for single payments only.
 */
const leaving: Readonly<Record<string, Leaving>> = {
  ideal: { currencies: ['eur'], countries: ['NL'], sets_up: 'sepa_debit' },
  bancontact: { currencies: ['eur'], countries: ['BE'], sets_up: 'sepa_debit' },
  p24: { currencies: ['pln', 'eur'], countries: ['PL'], sets_up: null },
  paypal: {
    currencies: ['aud', 'cad', 'chf', 'czk', 'dkk', 'eur', 'gbp', 'hkd', 'nok', 'nzd', 'pln', 'sek', 'sgd', 'usd'],
    countries: null,
    sets_up: null,
  },
}

/** The facts of a purchase that decide which payment methods fit. */
export interface Occasion {
  readonly currency: string
  /** The country of the billing address. Null if it is unknown. */
  readonly country: string | null
  /** True if the payment method is charged again later. */
  readonly reusable: boolean
}

/** True if a payment with this method sends the payer to another site. */
export const leavesPage = (type: string): boolean => Object.hasOwn(leaving, type)

/** Returns the types of the payment methods that fit a purchase, by the names of Stripe. The seller enables them at Stripe. */
export const offeredTypes = ({ currency, country, reusable }: Occasion): string[] => [
  ...onThePage,
  ...Object.entries(leaving).flatMap(([type, { currencies, countries, sets_up }]) =>
    currencies.includes(currency) && (countries === null || (country !== null && countries.includes(country))) && (!reusable || sets_up !== null) ? [type] : [],
  ),
]

/** True if this method pays only once, but sets up another method for later charges. */
export const setsUpAnother = (type: string): boolean => Object.hasOwn(leaving, type) && leaving[type]!.sets_up !== null
