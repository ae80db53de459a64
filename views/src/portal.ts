import type {
  getPortalCustomer,
  getPortalOrder,
  getPortalOrganization,
  getPortalSubscription,
  getPortalUsage,
  listPortalMembers,
  listPortalPaymentMethods,
  listPortalRefunds,
  listPortalSeats,
  previewPortalSubscription,
  Received,
} from '@bursar/contract'
import type { Complaint, Invitations, Seller, TestCardLine } from './frame.ts'

/** The tasks that a link can open directly, each with its portal section. */
export const flows = { team: 'team', payment_method: 'billing', cancel: 'subscriptions', seats: 'subscriptions', plan: 'subscriptions' } as const
export type Flow = keyof typeof flows

/** The frame that every portal page has in common. */
export interface PortalShell {
  readonly seller: { readonly id: string; readonly name: string; readonly slug: string }
  /** The signed-in reader. Managers see payments and the team; other members see only their own benefits. */
  readonly reader: { readonly email: string; readonly name: string | null; readonly role: string | null; readonly manages: boolean }
  /** True if the customer is a team or has bought seats. */
  readonly has_team: boolean
  /** True if the reader may see usage, and the customer has meters. */
  readonly has_usage: boolean
  /** The seller's page to which the portal offers a link back. Null if the seller gave none. */
  readonly return_url: string | null
  /** The single task that a link opened. The page then shows nothing else. */
  readonly flow: Flow | null
  /** The message key of the action that has just succeeded. */
  readonly done: string | null
  readonly complaints: readonly Complaint[]
}
export type PortalView = PortalEntryView | PortalOwnView | PortalManageView

// sign-in and own benefits
export type PortalEntryView =
  | {
      readonly kind: 'portal-enter'
      readonly seller: Seller
      readonly flow: Flow | null
      /** True if a script submits the form at once, so that the reader need not press the button. */
      readonly pressed: boolean
    }
  | {
      readonly kind: 'portal-sign-in'
      readonly seller: Seller
      readonly step: 'email' | 'code' | 'choose'
      readonly email: string
      readonly customers: readonly { readonly id: string; readonly name: string | null }[]
      readonly flow: Flow | null
      /** Why the sign-in page is shown: the link was invalid, or the reader has signed out. Null otherwise. */
      readonly why: 'link' | 'out' | null
      readonly mishap: 'email' | 'code' | null
      readonly resent: boolean
    }
  | { readonly kind: 'portal-email'; readonly seller: Seller; readonly state: 'open' | 'over' | 'taken' | 'done' }

export interface OwnKey {
  readonly id: string
  readonly name: string
  readonly display_key: string
  /** The full key, only in the response to a request to show it. */
  readonly key: string | null
  readonly status: 'granted' | 'revoked' | 'disabled'
  readonly expires_at: string | null
  readonly limit_activations: number | null
  readonly activations: readonly { readonly id: string; readonly label: string; readonly created_at: string }[]
}
export type PortalOwnView =
  | {
      readonly kind: 'portal-access'
      readonly shell: PortalShell
      /** The customer that pays for the member's benefits. */
      readonly paid_by: string | null
      readonly keys: readonly OwnKey[]
      readonly downloads: readonly {
        readonly id: string
        readonly benefit_id: string
        readonly name: string
        readonly version: string | null
        readonly size: number
        readonly sha256: string | null
        readonly modified_at: string | null
      }[]
      /** All other benefits: notes, features and external services. */
      readonly others: readonly {
        readonly id: string
        readonly type: string
        readonly description: string
        readonly note: string | null
        /** The external place that the benefit gives access to, such as a repository, described for its holder. */
        readonly place: string | null
        readonly state: 'ready' | 'waits' | 'stuck'
        readonly problem: Complaint | null
      }[]
    }
  | {
      readonly kind: 'portal-account'
      readonly shell: PortalShell
      readonly customer: { readonly name: string | null; readonly email: string | null; readonly team: boolean }
      readonly can_change_email: boolean
      /** The new e-mail address that the reader entered, if it was rejected. */
      readonly wished: string
      readonly expires_at: string
    }
  | { readonly kind: 'portal-forbidden'; readonly shell: PortalShell }

// The views of the managers' pages: overview, team, subscriptions, orders and billing.
type One<O> = Received<O> extends { items: (infer Item)[] } ? Item : never
export type PortalSubscription = Received<typeof getPortalSubscription>
export type PortalOrder = Received<typeof getPortalOrder>
export type PortalRefund = Received<typeof listPortalRefunds>['items'][number]
export type PortalCustomer = Received<typeof getPortalCustomer>
export type PortalProduct = Received<typeof getPortalOrganization>['products'][number]
export type PortalSeat = One<typeof listPortalSeats>
export type PortalMember = One<typeof listPortalMembers>
export type PortalMethod = One<typeof listPortalPaymentMethods>
export type PortalPrice = Received<typeof previewPortalSubscription>
export type PortalUsage = Received<typeof getPortalUsage>
export type PortalUsageMeter = PortalUsage['meters'][number]
export type PortalUsageCharge = PortalUsageMeter['charges'][number]

/** A change that a user is considering. Its price is shown before it can be made. */
export interface PortalWish {
  /** The input as typed. */
  readonly value: string
  /** The exact price of the change. Null if it was not requested yet or the change is not possible. */
  readonly price: PortalPrice | null
  /** The displayed price as text, sent back with the form. The server applies only the change that was displayed. */
  readonly seen: string
  readonly complaints: readonly Complaint[]
}

/** The seat counts of a purchase. */
export interface PortalSeatCount {
  readonly total: number
  readonly active: number
  readonly invited: number
}

export interface PortalPlan {
  readonly subscription: PortalSubscription
  /** True if the subscription has ended or never started. */
  readonly over: boolean
  /** The next charge without further changes. */
  readonly next: PortalPrice['next']
  /** True if a change of the subscription waits for its payment. */
  readonly paying: boolean
  readonly seats: PortalSeatCount | null
  /** The seats that can be taken back, in the order in which they are suggested. */
  readonly removable: readonly PortalSeat[]
}

/** The plans that a subscription can change to. */
export interface PortalChoices {
  readonly products: readonly PortalProduct[]
  /** The plans that only the number of seats excludes, with the numbers that they allow. */
  readonly beyond: readonly { readonly name: string; readonly minimum: number; readonly maximum: number | null }[]
}

/** The most seats that one request takes back. */
export const mostRemovable = 50

/** The changes that the seller lets customers make. */
export interface PortalRights {
  readonly seats: boolean
  readonly plan: boolean
  readonly pause: boolean
}

export type SeatFilter = 'current' | 'active' | 'invited' | 'expired' | 'revoked'
export const seatFilters: readonly SeatFilter[] = ['current', 'active', 'invited', 'expired', 'revoked']

/** The seats of one purchase and their holders. */
export interface PortalPool {
  /** The id that the forms send: of a subscription or of an order. */
  readonly key: { readonly subscription_id: string } | { readonly order_id: string }
  readonly name: string
  /** The benefits that a holder loses with the seat. */
  readonly gives: readonly string[]
  readonly count: PortalSeatCount
  /** The allowed numbers of seats. Null if the number cannot be changed here. */
  readonly bounds: { readonly least: number; readonly most: number | null } | null
  readonly pending: PortalSubscription['pending_update']
  readonly wish: PortalWish | null
  readonly people: readonly PortalSeat[]
  /** The seats that can be taken back, without regard to the filter. */
  readonly removable: readonly PortalSeat[]
  readonly page: number
  readonly pages: number
  /** The role selected for invited people. */
  readonly role: 'member' | 'billing_manager'
  readonly invited: Invitations | null
}

export type PortalManageView =
  | {
      readonly kind: 'portal-overview'
      readonly shell: PortalShell
      readonly owed: readonly PortalOrder[]
      readonly plans: readonly PortalPlan[]
      readonly orders: readonly PortalOrder[]
    }
  | {
      readonly kind: 'portal-team'
      readonly shell: PortalShell
      /** The name of the company that the team belongs to. */
      readonly company: string | null
      readonly pools: readonly PortalPool[]
      /** Team members without a seat. Null if the reader may not manage the team. */
      readonly others: readonly PortalMember[] | null
      readonly filter: { readonly status: SeatFilter; readonly query: string }
    }
  /** The invitation results, if the team page itself cannot be shown. */
  | { readonly kind: 'portal-invited'; readonly shell: PortalShell; readonly invited: Invitations }
  | {
      readonly kind: 'portal-subscriptions'
      readonly shell: PortalShell
      readonly plans: readonly (PortalPlan & { readonly choices: PortalChoices })[]
      readonly rights: PortalRights
      readonly products: readonly PortalProduct[]
      /** The change under consideration and its subscription. */
      readonly wish: (PortalWish & { readonly id: string; readonly what: 'seats' | 'plan' }) | null
    }
  | {
      readonly kind: 'portal-usage'
      readonly shell: PortalShell
      /** A meter without days has a link to them. */
      readonly usage: PortalUsage
      /** True if the page shows one of several meters. */
      readonly single: boolean
    }
  | { readonly kind: 'portal-orders'; readonly shell: PortalShell; readonly orders: readonly PortalOrder[]; readonly page: number; readonly pages: number }
  | {
      readonly kind: 'portal-order'
      readonly shell: PortalShell
      readonly order: PortalOrder
      readonly refunds: readonly PortalRefund[]
      readonly methods: readonly PortalMethod[]
      /** The test cards that can pay an open order. Null outside the sandbox, and with the processor's own form. */
      readonly cards: readonly TestCardLine[] | null
      /** The settings of the processor's own form for an open order, if it has one. */
      readonly form: { readonly key: string; readonly currency: string; readonly amount: number; readonly reusable: boolean } | null
      /** True if a requested document is being generated. The page reloads by itself. */
      readonly waits: boolean
      /** True if the page offers to create the invoice, because a link led to an invoice that does not exist yet. */
      readonly offers_invoice: boolean
    }
  | {
      readonly kind: 'portal-billing'
      readonly shell: PortalShell
      readonly customer: PortalCustomer
      readonly methods: readonly PortalMethod[]
      readonly subscriptions: readonly PortalSubscription[]
      /** The rejected input, by field name. */
      readonly draft: Readonly<Record<string, string>> | null
      /** The test cards that can be added. Null outside the sandbox, and with the processor's own form. */
      readonly cards: readonly TestCardLine[] | null
      /** The settings of the processor's own form, if it has one. */
      readonly form: { readonly key: string; readonly currency: string } | null
    }
