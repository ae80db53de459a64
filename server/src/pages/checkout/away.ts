import { resumeClientCheckout, type CheckoutPublic } from '@bursar/contract'
import type { z } from 'zod'
import { leavesPage } from '../../gateways/payments/offered.ts'
import type { PageAnswer, PageCall } from '../../modules/handlers.ts'
import { settled } from '../visits.ts'

type Checkout = z.input<typeof CheckoutPublic>

/** Seconds until the page asks for the result again. */
const askEvery = 10

/** Reads the payment of a confirmed checkout at the processor, and returns the checkout as it is then. */
export const resumeCheckout = async ({ call, secret, checkout }: { call: PageCall; secret: string; checkout: Checkout }): Promise<Checkout> => {
  const answer = settled(await call.api().send(resumeClientCheckout, { params: { client_secret: secret } }))
  return answer.status === 200 ? answer.body : checkout
}

/** True if the payment waits for the buyer at another site. */
export const isAway = ({ status, payment_processor_metadata: intent }: Checkout): boolean =>
  status === 'confirmed' && intent.intent_status === 'requires_action' && leavesPage(intent.payment_method_type ?? '')

/**
 * Builds the page that leads the buyer to the other site again. The checkout must just have been read at the processor,
 * because only then it has the address of that site. Returns null if no payment waits there.
 */
export const awayPage = (checkout: Checkout): PageAnswer | null => {
  const { id, organization, currency, locale, is_payment_required, total_amount } = checkout
  const { redirect_url: to, payment_method_type: method = '' } = checkout.payment_processor_metadata
  if (!isAway(checkout) || to === undefined) return null
  return {
    view: { kind: 'away', seller: organization.name, method, amount: is_payment_required ? total_amount : 0, currency, to, refresh: askEvery },
    script: true,
    here: `/checkout/${id}`,
    locales: locale ?? '',
  }
}
