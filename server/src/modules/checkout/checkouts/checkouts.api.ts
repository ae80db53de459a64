import {
  confirmClientCheckout,
  createCheckout,
  ExpiredCheckoutError,
  getCheckout,
  getCheckoutDraft,
  getClientCheckout,
  listCheckouts,
  NotOpenCheckout,
  paginate,
  PaymentError,
  renewClientCheckout,
  resumeClientCheckout,
  ResourceNotFound,
  saveCheckoutDraft,
  updateCheckout,
  updateClientCheckout,
} from '@bursar/contract'
import { job, read, multiStep, sweep, write } from '../../handlers.ts'
import { defaultAccount, processorOf } from '../../billing/index.ts'
import { confine, permit } from '../../organizations/index.ts'
import * as checkouts from './checkouts.ts'
import { begin, proceed } from './confirm.ts'
import { createCheckout as create } from './creating.ts'
import { readDraft, storeDraft } from './drafts.ts'
import { renewCheckout } from './renewing.ts'
import { beginResuming, proceedResuming } from './resuming.ts'
import { paymentSettled, watch } from './fulfilment.ts'
import { findCheckout, listCheckouts as list } from './loading.sql.ts'
import { presentCheckout, presentPublic } from './opening.ts'

export const operations = [
  read(listCheckouts, async (db, { scope, query, platform }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'sales:read'), query)
    return paginate(
      query,
      items.map((one) => presentCheckout(one, platform)),
      total,
      next_cursor,
    )
  }),
  write(createCheckout, async (tx, { scope, body, platform }) => presentCheckout(await create(tx, scope, platform, body), platform)),
  read(getCheckout, async (db, { scope, params, platform }) => {
    const checkout = await findCheckout(db, confine(scope, 'sales:read'), params.id)
    if (!checkout) throw new ResourceNotFound()
    return presentCheckout(checkout, platform)
  }),
  write(updateCheckout, async (wall, { scope, params, body, platform }) => {
    const checkout = await checkouts.requireLockedCheckout(wall, scope, params.id)
    permit(scope, checkout.organization_id, 'sales:manage')
    const tx = await checkouts.inItsTime(wall, checkout)
    // The seller gets the same error for an expired checkout as for a confirmed or succeeded one.
    if (checkout.status !== 'open' || checkouts.isExpired(checkout, tx.clock.business())) throw new NotOpenCheckout()
    return presentCheckout(await checkouts.updateCheckout(tx, platform, checkout, body), platform)
  }),
  read(getClientCheckout, async (db, { params, platform }) => {
    const { opened, test_time, payment } = await checkouts.openBySecret(db, platform, params.client_secret)
    // The header names the seller, so that the page about the expired checkout can lead back to it.
    if (checkouts.isExpired(opened.checkout, test_time ?? platform.clock.business()))
      throw new ExpiredCheckoutError(undefined, { 'bursar-seller': opened.seller.slug })
    return presentPublic(opened, platform, payment)
  }),
  write(updateClientCheckout, async (wall, { params, body, platform }) => {
    const { checkout } = await checkouts.lockBySecret(wall, platform, params.client_secret)
    const tx = await checkouts.requireOpen(wall, checkout)
    return presentPublic(await checkouts.updateCheckout(tx, platform, checkout, body), platform)
  }),
  read(getCheckoutDraft, (db, { params, platform }) => readDraft(db, platform, params.client_secret)),
  write(saveCheckoutDraft, (tx, { params, body, platform }) => storeDraft(tx, platform, params.client_secret, body.fields)),
  write(renewClientCheckout, async (tx, { params, platform }) => presentPublic(await renewCheckout(tx, platform, params.client_secret), platform)),
  multiStep(confirmClientCheckout, {
    // Reads the card of the token from the processor before any lock is taken.
    look: async (deps, { params, body, platform, chargeOn }) => {
      const seller = await checkouts.sellerBySecret(deps.db, platform, params.client_secret)
      const { preferred: processor } = deps.gateways.payments
      const token = body.confirmation_token_id
      if (!token && !body.payment_method_id) return { processor, card: null }
      // A declined payment counts against the rate limit of the client's IP address. A successful one does not.
      await chargeOn(PaymentError, 'checkout_declines')
      if (!token) return { processor, card: null }
      const account = await deps.transact((tx) => defaultAccount(tx, platform.sealer, seller.id, processor))
      return { processor, card: account ? await processorOf(deps, account).previewToken(token) : null }
    },
    begin: (tx, { params, body, platform }, seen) => begin(tx, platform, seen, params.client_secret, body),
    proceed: (deps, { params, body }, confirmed) => proceed(deps, params.client_secret, body, confirmed),
  }),
  multiStep(resumeClientCheckout, {
    begin: (tx, { params, platform }) => beginResuming(tx, platform, params.client_secret),
    proceed: (deps, { params }, confirmed) => proceedResuming(deps, params.client_secret, confirmed),
  }),
]

export const jobs = [job('checkout.payment_settled', paymentSettled)]
export const sweeps = [sweep('checkout.watch', watch)]
