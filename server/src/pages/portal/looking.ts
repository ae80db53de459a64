import {
  getPortalOrganization,
  listPortalSeats,
  listPortalSubscriptions,
  previewPortalSubscription,
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
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import type { Page, PageAnswer, Platform } from '../../modules/handlers.ts'
import { complaintsOf, leaveFor, settled } from '../visits.ts'
import { forManagers, type Visit } from './entering.ts'

/** A page of the portal and the form on it, at one address; without a form it is only looked at. */
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

/** On, to a page that says what was done; out of a single task, back to where its link came from. */
export const doneAt = ({ shell }: Visit, path: string, done: string, flow: Flow | null = null): PageAnswer => {
  if (flow !== null && shell.return_url !== null) return leaveFor(shell.return_url)
  const [place, query] = path.split('?')
  const search = new URLSearchParams(query)
  search.set('done', done)
  return { redirect: `/${shell.seller.slug}/portal${place}?${search.toString()}` }
}

/** As many as a reader looks through; whoever has more finds them by the API. */
const manyPages = 20

/** Everything of a list, up to a bound. */
export const everyPage = async <T>(ask: (page: number) => Promise<{ items: readonly T[]; pagination: { max_page: number } }>): Promise<T[]> => {
  const first = await ask(1)
  const items = [...first.items]
  for (let page = 2; page <= Math.min(first.pagination.max_page, manyPages); page++) items.push(...(await ask(page)).items)
  return items
}

export const subscriptionsOf = (api: Client): Promise<PortalSubscription[]> =>
  everyPage((page) => api.call(listPortalSubscriptions, { query: { page, limit: 100 } }))

export const isOver = ({ status }: PortalSubscription): boolean => status === 'canceled' || status === 'unpaid' || status === 'incomplete_expired'

/** What the seller lets customers do, and what they could change to. */
export const offerOf = async ({ call, shell }: Visit): Promise<{ rights: PortalRights; products: PortalProduct[] }> => {
  const { organization, products } = await call.api().call(getPortalOrganization, { params: { slug: shell.seller.slug } })
  const { update_seats, update_plan, pause } = organization.customer_portal_settings.subscription
  const open = organization.allow_customer_updates
  return {
    rights: { seats: open && update_seats, plan: open && update_plan, pause: pause === true },
    products: products.filter(({ recurring_interval }) => recurring_interval !== null),
  }
}

export const isExpired = ({ status, invitation_token_expires_at }: PortalSeat, now: Date): boolean =>
  status === 'pending' && invitation_token_expires_at !== null && new Date(invitation_token_expires_at) <= now

/** An invitation that has run out holds no seat. */
export const countOf = (seats: readonly PortalSeat[], total: number, now: Date): PortalSeatCount => ({
  total,
  active: seats.filter(({ status }) => status === 'claimed').length,
  invited: seats.filter((seat) => seat.status === 'pending' && !isExpired(seat, now)).length,
})

/** The seats of one purchase; none where it has none, or they are not there to be seen. */
export const seatsOf = async (
  api: Client,
  key: { subscription_id: string } | { order_id: string },
): Promise<{ seats: PortalSeat[]; total: number } | undefined> => {
  const first = await api.send(listPortalSeats, { query: { ...key, limit: 100 } })
  if (settled(first).status !== 200) return undefined
  const seats = await everyPage((page) => (page === 1 ? Promise.resolve(first.body) : api.call(listPortalSeats, { query: { ...key, page, limit: 100 } })))
  return { seats, total: first.body.total_seats }
}

/** A subscription with what comes next, and how its seats stand. */
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
  }
}

/** A number of seats, or another product, as a form says it. */
export interface Wanted {
  readonly id: string
  readonly what: 'seats' | 'plan'
  readonly value: string
}

export const wantedIn = (form: URLSearchParams): Wanted => ({
  id: form.get('subscription_id') ?? '',
  what: form.get('what') === 'plan' ? 'plan' : 'seats',
  value: (form.get('value') ?? '').trim(),
})

/** What is sent of it: what is no number is sent as it is, and refused where numbers are read. */
export const bodyOf = ({ what, value }: Wanted) =>
  what === 'plan' ? { product_id: value } : { seats: /^\d{1,9}$/.test(value) ? Number(value) : (value as never) }

/** What a change would cost, or why it cannot be made. */
export const priceOf = async (api: Client, wanted: Wanted): Promise<PortalWish> => {
  const asked = await api.send(previewPortalSubscription, { params: { id: wanted.id }, body: bodyOf(wanted) })
  return asked.status === 200
    ? { value: wanted.value, price: asked.body, seen: seenOf(wanted, asked.body), complaints: [] }
    : { value: wanted.value, price: null, seen: '', complaints: complaintsOf(asked).map(atField) }
}

/** Of one field only: whatever was wrong concerns it. */
const atField = (complaint: Complaint): Complaint => ({ ...complaint, loc: ['body', 'value'] })

/** What was seen, as a form carries it: for what, what is paid at once, and what a period costs from then on. */
const seenOf = ({ value }: Wanted, { now, amount }: PortalPrice): string => [value, now?.charge_amount ?? 0, amount].join(' ')

/** Whether this is the price that was seen: for the same, and nothing more is paid. As time passes, what is left of a period costs less. */
export const hasSeen = (form: URLSearchParams, { value, price }: PortalWish): boolean => {
  if (price === null) return false
  const [seen, charge, amount] = (form.get('seen') ?? '').split(' ')
  return seen === value && (price.now?.charge_amount ?? 0) <= Number(charge) && String(price.amount) === amount
}
