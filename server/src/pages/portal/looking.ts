import { getPortalOrganization, listPortalSeats, listPortalSubscriptions, previewPortalSubscription, revokePortalSeat } from '@bursar/contract'
import {
  mostRemovable,
  type Complaint,
  type Flow,
  type PortalPlan,
  type PortalPrice,
  type PortalProduct,
  type PortalRights,
  type PortalSeat,
  type PortalSeatCount,
  type PortalSubscription,
  type PortalWish,
} from '@bursar/views'
import type { Client } from '@bursar/contract/client'
import type { Page, PageAnswer, Platform } from '../../modules/handlers.ts'
import { complaintsOf, leaveFor, settled } from '../visits.ts'
import { forManagers, type Visit } from './entering.ts'

/** Builds a portal page (GET) and its form handler (POST) at one path. Without `take` the page has no form handler. */
export const pagesAt = (
  platform: Platform,
  path: string,
  show: (visit: Visit) => Promise<PageAnswer>,
  take?: (visit: Visit, form: URLSearchParams) => Promise<PageAnswer>,
): Page[] => [
  { method: 'GET', path: `/:slug/portal${path}`, signedIn: false, handle: forManagers(platform, show) },
  ...(take
    ? [{ method: 'POST', path: `/:slug/portal${path}`, signedIn: false, handle: forManagers(platform, (visit) => take(visit, visit.call.form)) } as const]
    : []),
]

/**
 * Redirects to a page that confirms the action. If a link opened the portal for this one task, redirects to the
 * seller's return URL instead.
 */
export const doneAt = ({ shell }: Visit, path: string, done: string, flow: Flow | null = null): PageAnswer => {
  if (flow !== null && shell.return_url !== null) return leaveFor(shell.return_url)
  const [place, query] = path.split('?')
  const search = new URLSearchParams(query)
  search.set('done', done)
  return { redirect: `/${shell.seller.slug}/portal${place}?${search.toString()}` }
}

/** Maximum number of pages of an API list that a portal page loads. Longer lists are available through the API. */
const manyPages = 20

/** Loads all pages of a list, up to the maximum. */
export const everyPage = async <T>(ask: (page: number) => Promise<{ items: readonly T[]; pagination: { max_page: number } }>): Promise<T[]> => {
  const first = await ask(1)
  const items = [...first.items]
  for (let page = 2; page <= Math.min(first.pagination.max_page, manyPages); page++) items.push(...(await ask(page)).items)
  return items
}

export const subscriptionsOf = (api: Client): Promise<PortalSubscription[]> =>
  everyPage((page) => api.call(listPortalSubscriptions, { query: { page, limit: 100 } }))

export const isOver = ({ status }: PortalSubscription): boolean => status === 'canceled' || status === 'unpaid' || status === 'incomplete_expired'

/** Loads the changes that the seller lets customers make, and the products they can change to. */
export const offerOf = async ({ call, shell }: Visit): Promise<{ rights: PortalRights; products: PortalProduct[]; behavior: string }> => {
  const { organization, products } = await call.api().call(getPortalOrganization, { params: { slug: shell.seller.slug } })
  const { update_seats, update_plan, pause } = organization.customer_portal_settings.subscription
  const open = organization.allow_customer_updates
  return {
    rights: { seats: open && update_seats, plan: open && update_plan, pause: pause === true },
    products: products.filter(({ recurring_interval }) => recurring_interval !== null),
    behavior: organization.proration_behavior,
  }
}

export const isExpired = ({ status, invitation_token_expires_at }: PortalSeat, now: Date): boolean =>
  status === 'pending' && invitation_token_expires_at !== null && new Date(invitation_token_expires_at) <= now

/** Counts the seats of a purchase. An expired invitation occupies no seat. */
export const countOf = (seats: readonly PortalSeat[], total: number, now: Date): PortalSeatCount => ({
  total,
  active: seats.filter(({ status }) => status === 'claimed').length,
  invited: seats.filter((seat) => seat.status === 'pending' && !isExpired(seat, now)).length,
})

/** Returns the seats that can be taken back, in the order in which the portal suggests them: invitations first, then the latest. */
export const removableOf = (seats: readonly PortalSeat[], now: Date): PortalSeat[] =>
  seats
    .filter((seat) => seat.status === 'claimed' || (seat.status === 'pending' && !isExpired(seat, now)))
    .toSorted((a, b) => Number(a.status === 'claimed') - Number(b.status === 'claimed') || b.created_at.localeCompare(a.created_at))

/**
 * Takes the selected seats back. Then redirects to the page of the form, which shows the price of the number of seats
 * that was asked for.
 */
export const freeSeats = async (visit: Visit, form: URLSearchParams, path: string): Promise<PageAnswer | Complaint[]> => {
  const ids = [...new Set(form.getAll('seat_id'))].slice(0, mostRemovable)
  if (ids.length === 0) return [{ loc: [], type: 'no_seat_selected', msg: '' }]
  for (const seat_id of ids) {
    const answer = settled(await visit.api.send(revokePortalSeat, { params: { seat_id } }))
    if (answer.status >= 300) return complaintsOf(answer).map((one) => ({ ...one, loc: [] }))
  }
  const { id, value } = wantedIn(form)
  const flow = form.get('flow')
  const search = new URLSearchParams({ subscription_id: id, what: 'seats', value, ...(flow === null ? {} : { flow }) })
  return doneAt(visit, `${path}?${search.toString()}`, 'freed')
}

/** Loads the seats of one purchase. Undefined if the purchase has no seats or the reader may not see them. */
export const seatsOf = async (
  api: Client,
  key: { subscription_id: string } | { order_id: string },
): Promise<{ seats: PortalSeat[]; total: number } | undefined> => {
  const first = await api.send(listPortalSeats, { query: { ...key, limit: 100 } })
  if (settled(first).status !== 200) return undefined
  const seats = await everyPage((page) => (page === 1 ? Promise.resolve(first.body) : api.call(listPortalSeats, { query: { ...key, page, limit: 100 } })))
  return { seats, total: first.body.total_seats }
}

/** Loads a subscription with its next charge and its seat counts. */
export const planOf = async (api: Client, subscription: PortalSubscription, now: Date): Promise<PortalPlan> => {
  const [next, seats] = await Promise.all([
    isOver(subscription) ? undefined : api.send(previewPortalSubscription, { params: { id: subscription.id }, body: {} }),
    subscription.seats === null || isOver(subscription) ? undefined : seatsOf(api, { subscription_id: subscription.id }),
  ])
  return {
    subscription,
    over: isOver(subscription),
    next: next?.status === 200 ? next.body.next : null,
    paying: next !== undefined && next.status !== 200 && complaintsOf(next)[0]?.type === 'SubscriptionLocked',
    seats: seats ? countOf(seats.seats, seats.total, now) : null,
    removable: seats ? removableOf(seats.seats, now) : [],
  }
}

/** A change that a form requests: a number of seats or another product. */
export interface Wanted {
  readonly id: string
  readonly what: 'seats' | 'plan'
  readonly value: string
}

/** Returns the change that an address asks for. The page that took seats back leads to it. */
export const wantedAt = ({ query, request }: Visit['call']): Wanted | undefined =>
  request.method === 'GET' && query.has('value') ? wantedIn(query) : undefined

export const wantedIn = (form: URLSearchParams): Wanted => ({
  id: form.get('subscription_id') ?? '',
  what: form.get('what') === 'plan' ? 'plan' : 'seats',
  value: (form.get('value') ?? '').trim(),
})

/** Builds the request body of the change. Text that is no number is sent unchanged, and the API rejects it. */
export const bodyOf = ({ what, value }: Wanted) =>
  what === 'plan' ? { product_id: value } : { seats: /^\d{1,9}$/.test(value) ? Number(value) : (value as never) }

/** Loads the price preview of a change, or the reason why the change is not possible. */
export const priceOf = async (api: Client, wanted: Wanted): Promise<PortalWish> => {
  const asked = await api.send(previewPortalSubscription, { params: { id: wanted.id }, body: bodyOf(wanted) })
  return asked.status === 200
    ? { value: wanted.value, price: asked.body, seen: seenOf(wanted, asked.body), complaints: [] }
    : { value: wanted.value, price: null, seen: '', complaints: complaintsOf(asked).map(atField) }
}

/** Assigns an API error to the form's only field, which is called `value`. */
const atField = (complaint: Complaint): Complaint => ({ ...complaint, loc: ['body', 'value'] })

/** Encodes the displayed price for a hidden form field: the new value, the immediate charge and the new price per period. */
const seenOf = ({ value }: Wanted, { now, amount }: PortalPrice): string => [value, now?.charge_amount ?? 0, amount].join(' ')

/**
 * True if the reader has seen this change at its current price or at a higher charge. The immediate charge falls as
 * time passes, because less of the period remains.
 */
export const hasSeen = (form: URLSearchParams, { value, price }: PortalWish): boolean => {
  if (price === null) return false
  const [seen, charge, amount] = (form.get('seen') ?? '').split(' ')
  return seen === value && (price.now?.charge_amount ?? 0) <= Number(charge) && String(price.amount) === amount
}
