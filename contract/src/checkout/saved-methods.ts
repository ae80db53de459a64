import { z } from 'zod'
import { resource, uuid } from '../kit/index.ts'

/** A saved payment method of the buyer, as the checkout page shows it. */
export const CheckoutPaymentMethod = resource('CheckoutPaymentMethod', {
  id: uuid(),
  type: z.string(),
  brand: z.string().nullable(),
  last4: z.string().nullable(),
  exp_month: z.int().nullable(),
  exp_year: z.int().nullable(),
})
export type CheckoutPaymentMethod = z.output<typeof CheckoutPaymentMethod>
