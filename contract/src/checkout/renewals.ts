import { failure, operation, ResourceNotFound } from '../kit/index.ts'
import { CheckoutCustomerDeleted, CheckoutLocked, CheckoutPublic } from './checkouts.ts'
import { holder } from './holder.ts'

export const CheckoutNotRenewable = failure('CheckoutNotRenewable', 403, 'This checkout cannot be renewed. Ask the seller for a new one.')

export const renewClientCheckout = operation({
  id: 'checkouts:client_renew',
  method: 'POST',
  path: '/v1/checkouts/client/{client_secret}/renew',
  summary: 'Renew an expired checkout by its secret',
  description:
    'Creates a checkout of the same products at the current catalog prices, with the choices, the buyer and the draft of the expired one. A discount that no longer applies is left out. A checkout is renewed once: a second call returns the same new checkout. A checkout with prices of its own cannot be renewed, nor one that expired more than a week ago.',
  ...holder,
  costs: 'none',
  returns: CheckoutPublic,
  status: 201,
  reveals: true,
  fails: [ResourceNotFound, CheckoutNotRenewable, CheckoutCustomerDeleted, CheckoutLocked],
})
