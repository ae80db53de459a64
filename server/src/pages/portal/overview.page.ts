import { listPortalOrders } from '@bursar/contract'
import type { PortalOrder } from '@bursar/views'
import type { Page, Platform } from '../../modules/handlers.ts'
import { isOver, pagesAt, planOf, subscriptionsOf } from './looking.ts'

/** True for a pending order whose payment failed and will be retried, or that belongs to an overdue subscription. */
export const isOwed = ({ status, next_payment_attempt_at, subscription }: PortalOrder): boolean =>
  status === 'pending' && (next_payment_attempt_at !== null || subscription?.status === 'past_due' || subscription?.status === 'unpaid')

/** The overview page: open payments first, then subscriptions with their next charge, and recent orders. */
export const overviewPages = (platform: Platform): Page[] =>
  pagesAt(platform, '/overview', async ({ api, shell }) => {
    const [subscriptions, { items }] = await Promise.all([subscriptionsOf(api), api.call(listPortalOrders, { query: { limit: 100 } })])
    const now = platform.clock.wall()
    const plans = await Promise.all(subscriptions.filter((one) => !isOver(one)).map((one) => planOf(api, one, now)))
    return { view: { kind: 'portal-overview', shell, owed: items.filter(isOwed), plans, orders: items.slice(0, 3) }, script: true }
  })
