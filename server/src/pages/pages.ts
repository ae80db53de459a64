import type { Payments } from '../gateways/payments/payments.ts'
import type { Page, Platform } from '../modules/handlers.ts'
import { checkoutPages } from './checkout/checkout.page.ts'
import { claimPages } from './claim.page.ts'
import { entryPages } from './portal/entry.page.ts'
import { managePages } from './portal/manage.page.ts'
import { ownPages } from './portal/own.page.ts'

/** The pages that buyers and their teams meet. They hold no rule: whatever they show or change, they ask the API for. */
export const buyerPages = (platform: Platform, payments: Payments): Page[] => [
  ...checkoutPages(platform, payments),
  ...claimPages(platform),
  ...entryPages(platform),
  ...ownPages(platform),
  ...managePages(platform, payments),
]
