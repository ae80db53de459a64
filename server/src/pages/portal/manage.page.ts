import type { Payments } from '../../gateways/payments/payments.ts'
import type { Page, Platform } from '../../modules/handlers.ts'
import { billingPages } from './billing.page.ts'
import { ordersPages } from './orders.page.ts'
import { overviewPages } from './overview.page.ts'
import { subscriptionsPages } from './subscriptions.page.ts'
import { teamPages } from './team.page.ts'
import { usagePages } from './usage.page.ts'

/** The pages for managers: team, subscriptions, usage, orders and billing. */
export const managePages = (platform: Platform, payments: Payments): Page[] => [
  ...[overviewPages, teamPages, subscriptionsPages, usagePages].flatMap((pages) => pages(platform)),
  ...[ordersPages, billingPages].flatMap((pages) => pages(platform, payments)),
]
