import {
  confirmClientCheckout,
  createCheckout,
  ExpiredCheckoutError,
  getCheckout,
  getClientCheckout,
  listCheckouts,
  NotOpenCheckout,
  paginate,
  ResourceNotFound,
  updateCheckout,
  updateClientCheckout,
} from '@bursar/contract'
import { job, read, steps, sweep, write } from '../../handlers.ts'
import { defaultAccount, processorOf } from '../../billing/index.ts'
import { confine, permit } from '../../organizations/index.ts'
import { create, findBySecret, hold, holdOpen, inItsTime, isExpired, isOver, update } from './checkouts.ts'
import { findCheckout, lastDecline, listCheckouts as list } from './checkouts.sql.ts'
import { begin, proceed } from './confirm.ts'
import { paymentSettled, watch } from './fulfilment.ts'
import { openAll, openOne, present, presentPublic } from './opening.ts'

export const operations = [
  read(listCheckouts, async (db, { reach, query, platform }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'sales:read'), query)
    return paginate(
      query,
      (await openAll(db, items)).map((one) => present(one, platform)),
      total,
      next_cursor,
    )
  }),
  write(createCheckout, async (tx, { reach, body, platform }) => present(await create(tx, reach, platform, body), platform)),
  read(getCheckout, async (db, { reach, params, platform }) => {
    const checkout = await findCheckout(db, confine(reach, 'sales:read'), params.id)
    if (!checkout) throw new ResourceNotFound()
    return present(await openOne(db, checkout), platform)
  }),
  write(updateCheckout, async (wall, { reach, params, body, platform }) => {
    const checkout = await hold(wall, reach, params.id)
    permit(reach, checkout.organization_id, 'sales:manage')
    const tx = await inItsTime(wall, checkout)
    // To its seller, one that has expired is one of those that are no longer open.
    if (checkout.status !== 'open' || isExpired(checkout, tx.clock.business())) throw new NotOpenCheckout()
    return present(await update(tx, platform, checkout, body), platform)
  }),
  read(getClientCheckout, async (db, { params, platform }) => {
    const { checkout } = await findBySecret(db, platform.hasher, params.client_secret)
    if (await isOver(db, platform, checkout)) throw new ExpiredCheckoutError()
    const shown = presentPublic(await openOne(db, checkout), platform)
    // Whoever comes back to a form that was open already is told what became of their payment.
    const declined = checkout.status === 'open' ? await lastDecline(db, checkout) : null
    return declined === null ? shown : { ...shown, payment_processor_metadata: { ...shown.payment_processor_metadata, declined } }
  }),
  write(updateClientCheckout, async (wall, { params, body, platform }) => {
    const found = await findBySecret(wall, platform.hasher, params.client_secret)
    const { tx, checkout } = await holdOpen(wall, found.reach, found.checkout.id)
    return presentPublic(await update(tx, platform, checkout, body), platform)
  }),
  steps(confirmClientCheckout, {
    // What the token stands for is asked before anything is held.
    look: async (means, { params, body, platform }) => {
      const { seller } = await findBySecret(means.db, platform.hasher, params.client_secret)
      const { preferred: processor } = means.gateways.payments
      const token = body.confirmation_token_id
      if (!token) return { processor, card: null }
      const account = await means.transact((tx) => defaultAccount(tx, platform.sealer, seller.id, processor))
      return { processor, card: account ? await processorOf(means, account).previewToken(token) : null }
    },
    begin: (tx, { params, body, platform }, seen) => begin(tx, platform, seen, params.client_secret, body),
    proceed: (means, { params, body }, confirmed) => proceed(means, params.client_secret, body.confirmation_token_id ?? null, confirmed),
  }),
]

export const jobs = [job('checkout.payment_settled', paymentSettled)]
export const sweeps = [sweep('checkout.watch', watch)]
