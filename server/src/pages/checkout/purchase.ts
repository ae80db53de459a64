import { listPortalBenefitGrants, listPortalOrders, listPortalSeats } from '@bursar/contract'
import type { Invitations, Offer, View } from '@bursar/views'
import type { Client } from '@bursar/contract/client'
import type { PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { minutes, seconds } from '../../platform/clock.ts'
import { inviteAll } from '../inviting.ts'
import { picturesOf, portalToken, showing } from '../visits.ts'

type Shown = Extract<View, { kind: 'purchase' }>

/** Loads the order, the grants and the team of a purchase through the portal API. Returns empty values without a portal session. */
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

/** Shows the progress of the purchase, exactly as the API reports it. */
export const showPurchase = async (platform: Platform, call: PageCall, offer: Offer, invited: Invitations | null = null): Promise<PageAnswer> => {
  const token = portalToken(platform, call.request, offer.organization_id)
  const { order, grants, team } = await findOut(token === undefined ? undefined : call.api(token), offer)
  const done = offer.status === 'succeeded'
  // The order is missing if the portal session has ended or belongs to another customer. The page then shows no details.
  const entered = order !== undefined
  // The age of the purchase. The page polls for benefits for one minute only. After that, they wait for the buyer or
  // for an external service.
  const age = platform.clock.business().getTime() - new Date(offer.modified_at ?? offer.created_at).getTime()
  const isFresh = age < 1 * minutes
  const benefits = (offer.product?.benefits ?? []).map(({ id, description }): Shown['benefits'][number] => {
    const own = grants.filter(({ benefit_id }) => benefit_id === id)
    // If a purchase consists of seats only, the buyer gets no benefits. They go to the seat holders.
    const isOthers = own.length === 0 && offer.seats !== null && !isFresh
    const state =
      !entered || isOthers ? 'unknown' : own.some(({ is_granted }) => is_granted) ? 'granted' : own.some(({ error }) => error !== null) ? 'failed' : 'coming'
    const note = own.find(({ is_granted, benefit }) => is_granted && benefit.type === 'custom')?.benefit
    return { description, note: note?.type === 'custom' ? note.properties.note : null, state }
  })
  const cover = picturesOf(offer.product?.medias ?? [])[0] ?? null
  const coming = benefits.some(({ state }) => state === 'coming')
  return {
    view: {
      kind: 'purchase',
      id: offer.id,
      seller: { name: offer.organization.name, slug: offer.organization.slug },
      product: offer.product?.name ?? '',
      cover,
      paid: offer.is_payment_required ? offer.total_amount : 0,
      currency: offer.currency,
      email: offer.customer_email,
      at_bank: !done && offer.payment_processor_metadata.intent_status === 'processing',
      number: order?.receipt_number ?? order?.invoice_number ?? null,
      steps: { payment: done ? 'done' : 'doing', order: done ? 'done' : 'waiting', access: !done ? 'waiting' : coming ? 'doing' : 'done' },
      benefits,
      entered,
      team,
      invited,
      refresh: !done || (coming && isFresh && invited === null) ? paceOf(age) : null,
    },
    script: true,
    ...showing([cover]),
    here: `/checkout/${offer.id}`,
    locales: offer.locale ?? '',
  }
}

/** Returns the seconds until the next reload. The interval grows with the age of the purchase. */
const paceOf = (age: number): number => (age < 10 * seconds ? 1 : age < 1 * minutes ? 5 : 30)

/** Invites all pasted addresses and shows the result of each. */
export const invite = async (platform: Platform, call: PageCall, offer: Offer): Promise<PageAnswer> => {
  const token = portalToken(platform, call.request, offer.organization_id)
  if (offer.status !== 'succeeded' || token === undefined) return { redirect: `/checkout/${offer.id}` }
  return showPurchase(platform, call, offer, await inviteAll(call.api(token), { checkout_id: offer.id }, call.form.get('addresses') ?? ''))
}
