import type { z } from 'zod'
import type { CheckoutPublic } from './checkout/checkouts.ts'
import type { listPortalRefunds } from './billing/documents.ts'
import type { getPortalOrder } from './billing/orders.ts'
import type { getPortalSubscription } from './billing/portal-subscriptions.ts'
import type { previewPortalSubscription } from './billing/previews.ts'
import type { listPortalSeats } from './billing/seats.ts'
import type { getPortalOrganization } from './catalog/storefront.ts'
import type { getPortalCustomer, listPortalMembers, listPortalPaymentMethods } from './customers/portal.ts'
import type { Received } from './kit/index.ts'
import { scopes, type Scope } from './scopes.ts'

/** The languages that pages speak. */
export const localeNames = { en: 'English', de: 'Deutsch' } as const
export type Locale = keyof typeof localeNames
export const locales = Object.keys(localeNames) as readonly Locale[]
export const themes = ['system', 'light', 'dark'] as const
export type Theme = (typeof themes)[number]

/** What every page is shown in: the reader, the place, and the proof that a form came from us. */
export interface Frame {
  readonly locale: Locale
  readonly theme: Theme
  readonly sandbox: boolean
  /** Goes back with every form. */
  readonly csrf: string
  readonly person: { readonly email: string } | null
  /** Where the reader is, to come back to. */
  readonly path: string
  readonly development: boolean
  readonly now: Date
}

/** What was wrong with a form, in the API's own words: at which field, and why. Without a field it concerns the whole. */
export interface Complaint {
  readonly loc: readonly (string | number)[]
  readonly type: string
  readonly msg: string
}

export interface OrganizationChoice {
  readonly id: string
  readonly name: string
  readonly slug: string
  readonly chosen: boolean
}

/** How a form went that was sent: shown at the field, and summed up above. */
export type Mishap =
  | 'email_invalid'
  | 'code_wrong'
  | 'code_expired'
  | 'factor_wrong'
  | 'organization_missing'
  | 'organization_single'
  | 'name_missing'
  | 'scopes_missing'
  | 'forever_unconfirmed'
  | 'session_old'
  | 'not_allowed'

export interface TokenLine {
  readonly id: string
  readonly comment: string
  readonly hint: string
  readonly scopes: readonly Scope[]
  readonly created_at: Date
  readonly expires_at: Date | null
  readonly last_used_at: Date | null
}

// --- where a buyer pays, and is thanked
/** A checkout as the API shows it to its buyer, without what opens it. */
export type Offer = Omit<z.input<typeof CheckoutPublic>, 'client_secret' | 'url' | 'success_url' | 'customer_ip_address'>

/** A card of the sandbox. */
export interface TestCardLine {
  readonly token: string
  readonly type: string
  readonly brand: string | null
  readonly last4: string | null
  readonly says: string
}

/** How far a purchase is, as the server knows it. */
export type StepState = 'done' | 'doing' | 'waiting'

/** What came of inviting somebody to a seat, or of a piece of text that holds no address. */
export interface Invited {
  readonly address: string
  readonly result: 'invited' | 'has_one' | 'no_address' | 'no_seat' | 'not_asked' | 'refused'
  /** What else there is to say of it, in the API's words. */
  readonly why: Complaint | null
}

/** What came of everybody who was pasted, and why some were not asked. */
export interface Invitations {
  readonly people: readonly Invited[]
  readonly halted: 'full' | 'at_once' | 'wait' | 'signed_out' | null
}

/** Why nobody can pay here. */
export type ClosedReason = 'expired' | 'link_needed' | 'unknown' | 'not_sold'

export type CheckoutView =
  | {
      readonly kind: 'checkout'
      readonly offer: Offer
      /** What stands in the fields, by their names. */
      readonly draft: Readonly<Record<string, string>>
      readonly schedule: { readonly today: number; readonly later: readonly { readonly from: Date; readonly amount: number; readonly plus_tax: boolean }[] }
      /** In the sandbox: the cards there are. */
      readonly cards: readonly TestCardLine[] | null
      /** Where the processor's own form takes the card: the key it is opened with. */
      readonly publishable_key: string | null
      /** What is paid for what, as the button carries it: another price is shown first. */
      readonly shown: string
      readonly complaints: readonly Complaint[]
      /** Why the card was refused, in the bank's words. */
      readonly declined: string | null
      readonly notice: 'price_changed' | 'subscribed' | 'trial_used' | 'not_ready' | null
    }
  | {
      /** What is asked of the payer by their bank, which the sandbox plays. */
      readonly kind: 'bank'
      /** Where the answer goes. */
      readonly action: string
      readonly seller: string
      readonly amount: number
      readonly currency: string
      /** Where a real bank asks, through the processor's own script. */
      readonly processor: { readonly key: string; readonly intent_client_secret: string } | null
    }
  | {
      readonly kind: 'purchase'
      readonly id: string
      readonly seller: { readonly name: string; readonly slug: string }
      readonly product: string
      readonly paid: number
      readonly currency: string
      readonly email: string | null
      readonly number: string | null
      readonly steps: { readonly payment: StepState; readonly order: StepState; readonly access: StepState }
      readonly benefits: readonly { readonly description: string; readonly state: 'granted' | 'coming' | 'failed' | 'unknown' }[]
      /** The buyer is in the portal already. */
      readonly entered: boolean
      readonly team: { readonly total: number; readonly free: number } | null
      readonly invited: Invitations | null
      readonly refresh: number | null
    }
  | { readonly kind: 'checkout-closed'; readonly reason: ClosedReason; readonly seller: string | null; readonly return_url: string | null }

// --- where a seat is taken
interface Seller {
  readonly name: string
  readonly slug: string
}

/** What a link to a seat leads to: the offer, or the end that it met. */
export type ClaimState = 'open' | 'closed' | 'mine' | 'used' | 'expired' | 'asked' | 'revoked'
export type ClaimView =
  | {
      readonly kind: 'claim'
      readonly seller: Seller
      readonly state: ClaimState
      readonly product_name: string
      readonly email: string
      /** The team that pays for it. */
      readonly invited_by: string | null
      readonly benefits: readonly { readonly id: string; readonly description: string }[]
      /** Who is in this browser's portal already, where it is somebody else. */
      readonly other: string | null
    }
  | { readonly kind: 'claim-unknown'; readonly seller: Seller }
  | {
      readonly kind: 'claim-ready'
      readonly seller: Seller
      readonly product_name: string
      readonly benefits: readonly { readonly id: string; readonly description: string; readonly state: 'ready' | 'waits' | 'stuck' }[]
    }

// --- where customers and their teams look after themselves
/** The tasks that a link can lead straight to, each with the section that does it. */
export const flows = { team: 'team', payment_method: 'billing', cancel: 'subscriptions', seats: 'subscriptions', plan: 'subscriptions' } as const
export type Flow = keyof typeof flows

/** What every page of the portal shows around its own part. */
export interface PortalShell {
  readonly seller: { readonly id: string; readonly name: string; readonly slug: string }
  /** Who looks. Whoever manages sees what is paid and who belongs; others see what is theirs. */
  readonly reader: { readonly email: string; readonly name: string | null; readonly role: string | null; readonly manages: boolean }
  /** The seller's own page, to go back to. */
  readonly return_url: string | null
  /** A single task, reached by a link into it: nothing else is shown. */
  readonly flow: Flow | null
  /** What has just been done, by its name in the catalogue of messages. */
  readonly done: string | null
  readonly complaints: readonly Complaint[]
}
export type PortalView = PortalEntryView | PortalOwnView | PortalManageView

// entry, one's own things
export type PortalEntryView =
  | { readonly kind: 'portal-enter'; readonly seller: Seller; readonly flow: Flow | null; /** Our script presses the button. */ readonly pressed: boolean }
  | {
      readonly kind: 'portal-sign-in'
      readonly seller: Seller
      readonly step: 'email' | 'code' | 'choose'
      readonly email: string
      readonly customers: readonly { readonly id: string; readonly name: string | null }[]
      readonly flow: Flow | null
      /** Why somebody is here who meant to be inside. */
      readonly why: 'link' | 'out' | null
      readonly mishap: 'email' | 'code' | 'wait' | null
      readonly resent: boolean
    }
  | { readonly kind: 'portal-email'; readonly seller: Seller; readonly state: 'open' | 'over' | 'taken' | 'done' }

export interface OwnKey {
  readonly id: string
  readonly name: string
  readonly display_key: string
  /** In clear, in the answer to whoever asked to see it. */
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
      /** Whoever pays for what a member has. */
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
      /** Everything else that was given: notes, features, places outside. */
      readonly others: readonly {
        readonly id: string
        readonly type: string
        readonly description: string
        readonly note: string | null
        /** Where outside it leads, in a word that its holder knows. */
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
      /** What was typed, where it was refused. */
      readonly wished: string
      readonly expires_at: string
    }
  | { readonly kind: 'portal-forbidden'; readonly shell: PortalShell }

// overview, team, subscription, orders, billing
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

/** A change that somebody thinks about: what it costs is shown before it can be made. */
export interface PortalWish {
  /** As it was typed. */
  readonly value: string
  /** What exactly that costs; null where nobody has asked yet, or it cannot be had. */
  readonly price: PortalPrice | null
  /** Goes back with the form: only what was seen is bought. */
  readonly seen: string
  readonly complaints: readonly Complaint[]
}

/** How the seats of a purchase stand. */
export interface PortalSeatCount {
  readonly total: number
  readonly active: number
  readonly invited: number
}

export interface PortalPlan {
  readonly subscription: PortalSubscription
  /** It has ended, or never began. */
  readonly over: boolean
  /** What comes next as things are. */
  readonly next: PortalPrice['next']
  /** A change of it waits for its money. */
  readonly paying: boolean
  readonly seats: PortalSeatCount | null
}

/** What the seller lets customers do. */
export interface PortalRights {
  readonly seats: boolean
  readonly plan: boolean
  readonly pause: boolean
}

export type SeatFilter = 'current' | 'active' | 'invited' | 'expired' | 'revoked'
export const seatFilters: readonly SeatFilter[] = ['current', 'active', 'invited', 'expired', 'revoked']

/** The seats of one purchase, and who has them. */
export interface PortalPool {
  /** What its forms name: a subscription, or an order. */
  readonly key: { readonly subscription_id: string } | { readonly order_id: string }
  readonly name: string
  /** What somebody loses with their seat. */
  readonly gives: readonly string[]
  readonly count: PortalSeatCount
  /** Null: their number cannot be changed here. */
  readonly bounds: { readonly least: number; readonly most: number | null } | null
  readonly pending: PortalSubscription['pending_update']
  readonly wish: PortalWish | null
  readonly people: readonly PortalSeat[]
  readonly page: number
  readonly pages: number
  /** The role that was chosen for those who are invited. */
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
      readonly pools: readonly PortalPool[]
      /** Those who belong to the team and have no seat; null where whoever looks cannot lead it. */
      readonly others: readonly PortalMember[] | null
      readonly filter: { readonly status: SeatFilter; readonly query: string }
    }
  /** Who was invited, where nothing else can be shown. */
  | { readonly kind: 'portal-invited'; readonly shell: PortalShell; readonly invited: Invitations }
  | {
      readonly kind: 'portal-subscriptions'
      readonly shell: PortalShell
      readonly plans: readonly PortalPlan[]
      readonly rights: PortalRights
      readonly products: readonly PortalProduct[]
      /** What is thought about, and of which subscription. */
      readonly wish: (PortalWish & { readonly id: string; readonly what: 'seats' | 'plan' }) | null
    }
  | { readonly kind: 'portal-orders'; readonly shell: PortalShell; readonly orders: readonly PortalOrder[]; readonly page: number; readonly pages: number }
  | {
      readonly kind: 'portal-order'
      readonly shell: PortalShell
      readonly order: PortalOrder
      readonly refunds: readonly PortalRefund[]
      readonly methods: readonly PortalMethod[]
      /** A paper that was asked for is being made: the page looks again by itself. */
      readonly waits: boolean
    }
  | {
      readonly kind: 'portal-billing'
      readonly shell: PortalShell
      readonly customer: PortalCustomer
      readonly methods: readonly PortalMethod[]
      readonly subscriptions: readonly PortalSubscription[]
      /** What was typed and not taken, by the names of the fields. */
      readonly draft: Readonly<Record<string, string>> | null
      /** In the sandbox: cards to add. */
      readonly cards: readonly TestCardLine[] | null
      /** What opens the processor's own form, where it has one. */
      readonly form: { readonly key: string; readonly currency: string } | null
    }

/** The pages there are, each with what it shows. The server fills them, the pages lay them out. */
export type View =
  | {
      readonly kind: 'sign-in'
      readonly step: 'email' | 'code' | 'factor'
      readonly email: string
      readonly return_to: string
      /** The app that waits behind the sign-in. */
      readonly client_name: string | null
      readonly mishap: Mishap | null
      readonly resent: boolean
      readonly tries_left: number | null
    }
  | {
      readonly kind: 'consent'
      readonly action: string
      readonly client: {
        readonly name: string
        readonly host: string
        readonly verified: boolean
        readonly since: Date
        readonly client_uri: string | null
        readonly tos_uri: string | null
        readonly policy_uri: string | null
      }
      readonly scopes: readonly { readonly scope: Scope; readonly fresh: boolean }[]
      readonly organizations: readonly OrganizationChoice[]
      readonly everywhere: boolean
      readonly single: boolean
      readonly mishap: Mishap | null
    }
  | {
      readonly kind: 'apps'
      readonly apps: readonly {
        readonly client_id: string
        readonly name: string
        readonly verified: boolean
        readonly scopes: readonly Scope[]
        /** Null: everywhere. */
        readonly organizations: readonly string[] | null
        readonly created_at: Date
        readonly last_authorized_at: Date
      }[]
      readonly withdrawn: string | null
    }
  | {
      readonly kind: 'tokens'
      readonly owner: { readonly kind: 'personal' } | { readonly kind: 'organization'; readonly id: string; readonly name: string; readonly slug: string }
      readonly organizations: readonly { readonly id: string; readonly name: string }[]
      readonly tokens: readonly TokenLine[]
      /** Shown once, in the answer to the form that made it. */
      readonly made: { readonly comment: string; readonly token: string } | null
      readonly revoked: boolean
      readonly draft: { readonly comment: string; readonly preset: string; readonly scopes: readonly Scope[]; readonly days: string }
      readonly mishap: Mishap | null
    }
  | {
      readonly kind: 'security'
      readonly state: 'off' | 'pending' | 'on'
      readonly required: boolean
      /** While it is being set up: what the authenticator needs. */
      readonly setup: { readonly secret: string; readonly uri: string } | null
      /** Shown once. */
      readonly recovery_codes: readonly string[] | null
      readonly recovery_left: number
      readonly mishap: Mishap | null
    }
  | { readonly kind: 'mailbox'; readonly letters: readonly { readonly at: Date; readonly to: string; readonly subject: string; readonly text: string }[] }
  | CheckoutView
  | ClaimView
  | PortalView
  /** The browser goes on by itself; whoever's does not has a link. */
  | { readonly kind: 'leaving'; readonly to: string }
  | {
      readonly kind: 'problem'
      readonly status: number
      readonly error: string
      readonly description: string
      readonly request_id: string | null
      /** The page is tried again by itself after so many seconds. */
      readonly retry_after?: number | null
      /** Whoever looks has no account with us, and nothing to do there. */
      readonly visitor?: boolean
    }

/** For how many days a token can be made; "forever" besides. */
export const tokenDays = [30, 90, 180, 365] as const

/** Sets of scopes that people ask for together; what only reads is a set of its own. */
export const tokenPresets = {
  read_orders: ['orders:read', 'refunds:read', 'payments:read'],
  read_everything: scopes.filter((scope) => scope.endsWith(':read')),
  webhook_worker: ['webhooks:read', 'webhooks:write', 'events:read'],
  catalog: ['products:read', 'products:write', 'benefits:read', 'benefits:write', 'discounts:read', 'discounts:write', 'meters:read', 'meters:write'],
} as const satisfies Record<string, readonly Scope[]>
