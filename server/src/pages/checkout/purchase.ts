import { listPortalBenefitGrants, listPortalOrders, listPortalSeats, type Invitations, type Offer, type View } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import type { PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { minutes, seconds } from '../../platform/clock.ts'
import { inviteAll } from '../inviting.ts'
import { portalToken } from '../visits.ts'

type Shown = Extract<View, { kind: 'purchase' }>

/** What the portal knows of a purchase; nothing for whoever is not in it. */
const findOut = async (api: Client | undefined, offer: Offer) => {
  if (!api || offer.status !== 'succeeded') return { order: undefined, grants: [], team: null }
  const [orders, grants] = await Promise.all([
    api.send(listPortalOrders, { query: { product_id: [offer.product_id!], limit: '10' } }),
    api.send(listPortalBenefitGrants, { query: { checkout_id: [offer.id], limit: '100' } }),
  ])
  const order = orders.status === 200 ? orders.body.items.find(({ checkout_id }) => checkout_id === offer.id) : undefined
  const of = order && (order.subscription_id === null ? { order_id: order.id } : { subscription_id: order.subscription_id })
  const seats = of && offer.seats !== null ? await api.send(listPortalSeats, { query: { ...of, limit: '1' } }) : undefined
  return {
    order,
    grants: grants.status === 200 ? grants.body.items : [],
    team: seats?.status === 200 ? { total: seats.body.total_seats, free: seats.body.available_seats } : null,
  }
}

/** How far the purchase is: what the API says of it now, and nothing that it does not. */
export const showPurchase = async (platform: Platform, call: PageCall, offer: Offer, invited: Invitations | null = null): Promise<PageAnswer> => {
  const token = portalToken(platform, call.request, offer.organization_id)
  const { order, grants, team } = await findOut(token === undefined ? undefined : call.api(token), offer)
  const done = offer.status === 'succeeded'
  // A session that has ended, or is somebody else's, shows nothing of this purchase.
  const entered = order !== undefined
  // What waits for the buyer, or for somebody's service, is not waited for here.
  const age = platform.clock.business().getTime() - new Date(offer.modified_at ?? offer.created_at).getTime()
  const isFresh = age < 1 * minutes
  const benefits = (offer.product?.benefits ?? []).map(({ id, description }): Shown['benefits'][number] => {
    const own = grants.filter(({ benefit_id }) => benefit_id === id)
    // A seat may be all that was bought: then whoever gets one is given this.
    const isOthers = own.length === 0 && offer.seats !== null && !isFresh
    const state =
      !entered || isOthers ? 'unknown' : own.some(({ is_granted }) => is_granted) ? 'granted' : own.some(({ error }) => error !== null) ? 'failed' : 'coming'
    return { description, state }
  })
  const coming = benefits.some(({ state }) => state === 'coming')
  return {
    view: {
      kind: 'purchase',
      id: offer.id,
      seller: { name: offer.organization.name, slug: offer.organization.slug },
      product: offer.product?.name ?? '',
      paid: offer.is_payment_required ? offer.total_amount : 0,
      currency: offer.currency,
      email: offer.customer_email,
      number: order?.receipt_number ?? order?.invoice_number ?? null,
      steps: { payment: done ? 'done' : 'doing', order: done ? 'done' : 'waiting', access: !done ? 'waiting' : coming ? 'doing' : 'done' },
      benefits,
      entered,
      team,
      invited,
      refresh: !done || (coming && isFresh && invited === null) ? paceOf(age) : null,
    },
    script: true,
    here: `/checkout/${offer.id}`,
    locales: offer.locale ?? '',
  }
}

/** Looked at again after so many seconds: what takes long is asked for less and less often. */
const paceOf = (age: number): number => (age < 10 * seconds ? 1 : age < 1 * minutes ? 5 : 30)

/** Invites everybody who was pasted, and says of each what came of it. */
export const invite = async (platform: Platform, call: PageCall, offer: Offer): Promise<PageAnswer> => {
  const token = portalToken(platform, call.request, offer.organization_id)
  if (offer.status !== 'succeeded' || token === undefined) return { redirect: `/checkout/${offer.id}` }
  return showPurchase(platform, call, offer, await inviteAll(call.api(token), { checkout_id: offer.id }, call.form.get('addresses') ?? ''))
}
