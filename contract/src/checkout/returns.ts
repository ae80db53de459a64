import { operation, ResourceNotFound } from '../kit/index.ts'
import { CheckoutPublic, ExpiredCheckoutError } from './checkouts.ts'
import { holder } from './holder.ts'

export const resumeClientCheckout = operation({
  id: 'checkouts:client_resume',
  method: 'POST',
  path: '/v1/checkouts/client/{client_secret}/resume',
  summary: 'Resume a checkout after the buyer returns',
  description:
    'Call it when the buyer returns from a payment method that leaves the page. It reads the payment at the processor by its id, and records a result. It never creates a payment. A declined payment opens the checkout again, with the reason in `payment_processor_metadata.declined`.',
  ...holder,
  // A payment has one result, and its confirmation counts for the jobs of that result.
  costs: 'none',
  returns: CheckoutPublic,
  reveals: true,
  fails: [ResourceNotFound, ExpiredCheckoutError],
})
