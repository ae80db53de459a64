import type { Payments } from '../gateways/payments/payments.ts'
import type { Page, Platform } from '../modules/handlers.ts'
import { checkoutPages } from './checkout/checkout.page.ts'
import { claimPages } from './checkout/claim.page.ts'
import { entryPages } from './portal/entry.page.ts'
import { managePages } from './portal/manage.page.ts'
import { ownPages } from './portal/own.page.ts'

/** The pages of buyers and their teams. They contain no business rules: all reads and changes go through the API. */
export const buyerPages = (platform: Platform, payments: Payments): Page[] => [
  ...checkoutPages(platform, payments),
  ...claimPages(platform),
  ...entryPages(platform),
  ...ownPages(platform),
  ...managePages(platform, payments),
]
