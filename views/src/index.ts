import type { AccountView } from './account.ts'
import type { CheckoutView, ClaimView } from './checkout.ts'
import type { FrameView } from './frame.ts'
import type { PortalView } from './portal.ts'

export * from './account.ts'
export * from './checkout.ts'
export * from './frame.ts'
export * from './portal.ts'

/** All pages with their data. The server fills them, and the web package renders them. */
export type View = AccountView | CheckoutView | ClaimView | PortalView | FrameView
