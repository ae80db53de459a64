import { ExpiredCheckoutError, type CheckoutPublic } from '@bursar/contract'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { formOf, look, readPayment, settle } from '../../billing/index.ts'
import { isExpired, openBySecret } from './checkouts.ts'
import { reopen } from './fulfilment.ts'
import { presentPublic } from './opening.ts'

/** The checkout, and the payment that it waits for. */
interface Resumed extends Readonly<Record<string, string | null>> {
  readonly organization_id: string
  readonly checkout_id: string
  readonly payment_id: string | null
}

/** Opens the checkout. Throws if it has expired, because its secret then shows nothing. */
const openUnexpired = async (db: Db, platform: Platform, client_secret: string) => {
  const found = await openBySecret(db, platform, client_secret)
  if (isExpired(found.opened.checkout, found.test_time ?? platform.clock.business())) throw new ExpiredCheckoutError()
  return found
}

/** Finds the payment that a confirmed checkout waits for. */
export const beginResuming = async (tx: Tx, platform: Platform, client_secret: string): Promise<Resumed> => {
  const { checkout } = (await openUnexpired(tx, platform, client_secret)).opened
  return { organization_id: checkout.organization_id, checkout_id: checkout.id, payment_id: checkout.status === 'confirmed' ? checkout.payment_id : null }
}

type Look = ReturnType<typeof look>
const running = new WeakMap<Deps['gateways'], Map<string, Look>>()

/**
 * Reads the payment at the processor. Concurrent callers share one request, because every holder of the address of a
 * checkout can cause it, and the processor limits the requests of a seller.
 */
const lookOnce = (deps: Deps, payment: Parameters<typeof look>[1]): Look => {
  const looks = running.get(deps.gateways) ?? new Map<string, Look>()
  running.set(deps.gateways, looks)
  const begun = looks.get(payment.id) ?? look(deps, payment).finally(() => looks.delete(payment.id))
  looks.set(payment.id, begun)
  return begun
}

/**
 * Reads the payment at the processor by the stored id of its intent, and records the result. Creates no intent and
 * confirms none: an attempt without an intent is left to the sweep. So a buyer who returns twice, or a forged return, pays
 * nothing. If the processor does not answer, the checkout is returned as it is.
 */
export const proceedResuming = async (deps: Deps, client_secret: string, { organization_id, checkout_id, payment_id }: Resumed): Promise<CheckoutPublic> => {
  const { platform } = deps
  const metadata: Record<string, string> = {}
  if (payment_id !== null) {
    let payment = (await readPayment(deps.db, organization_id, payment_id))!
    const intent = payment.status === 'pending' && payment.intent_id !== null ? await lookOnce(deps, payment) : undefined
    if (intent) {
      payment = await deps.transact(async (tx) => {
        const settled = await settle(tx, payment, intent)
        if (settled.status === 'failed') await reopen(tx, platform, { organization_id, checkout_id }, payment_id)
        return settled
      })
      if (intent.redirect_url !== null) metadata.redirect_url = intent.redirect_url
      if (intent.status === 'requires_action') metadata.intent_client_secret = intent.client_secret
    }
    Object.assign(metadata, await formOf(deps.db, payment))
  }
  const { opened, payment } = await openUnexpired(deps.db, platform, client_secret)
  const shown = presentPublic(opened, platform, payment)
  return { ...shown, payment_processor_metadata: { ...shown.payment_processor_metadata, ...metadata } }
}
