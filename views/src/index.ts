import type { AccountView } from './account.ts'
import type { CheckoutView, ClaimView } from './checkout.ts'
import type { DashboardView } from './dashboard.ts'
import type { FrameView } from './frame.ts'
import type { PortalView } from './portal.ts'

export * from './accent.ts'
export * from './account.ts'
export * from './brand.ts'
export * from './checkout.ts'
export * from './dashboard.ts'
export * from './frame.ts'
export * from './labels.ts'
export * from './mails.ts'
export * from './plurals.ts'
export * from './portal.ts'
export * from './reference.ts'

/** All pages with their data. The server fills them, and the web package renders them. */
export type View = AccountView | CheckoutView | ClaimView | DashboardView | PortalView | FrameView
