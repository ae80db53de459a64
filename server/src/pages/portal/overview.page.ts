import { listPortalOrders, type PortalOrder } from '@bursar/contract'
import type { Page, Platform } from '../../modules/handlers.ts'
import { isOver, pagesAt, planOf, subscriptionsOf } from './looking.ts'

/** Asked for in vain, and to be asked for again, or not paid though its subscription should be. */
export const isOwed = ({ status, next_payment_attempt_at, subscription }: PortalOrder): boolean =>
  status === 'pending' && (next_payment_attempt_at !== null || subscription?.status === 'past_due' || subscription?.status === 'unpaid')

/** What there is, what it costs next, and what is wrong first. */
export const overviewPages = (platform: Platform): Page[] =>
  pagesAt(platform, '/overview', async ({ api, shell }) => {
    const [subscriptions, { items }] = await Promise.all([subscriptionsOf(api), api.call(listPortalOrders, { query: { limit: 100 } })])
    const now = platform.clock.wall()
    const plans = await Promise.all(subscriptions.filter((one) => !isOver(one)).map((one) => planOf(api, one, now)))
    return { view: { kind: 'portal-overview', shell, owed: items.filter(isOwed), plans, orders: items.slice(0, 3) }, script: true }
  })
