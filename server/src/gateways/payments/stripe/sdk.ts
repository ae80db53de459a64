import { createRequire } from 'node:module'
import type { Stripe } from 'stripe'

const load = createRequire(import.meta.url)

/** Loads the Stripe SDK on first use. A deployment without Stripe accounts then never holds the SDK in memory. */
export const stripeSdk = (): typeof Stripe => load('stripe') as typeof Stripe
