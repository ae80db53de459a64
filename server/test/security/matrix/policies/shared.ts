import type { MemberRole, OrganizationRole, Scope } from '@bursar/contract'

/** Ids of the resources that a request can name. All ids belong to our tenant or to another tenant, or no resource has them. */
export interface Target {
  readonly organization_id: string
  readonly member_id: string
  readonly invitation_id: string
  readonly organization_token_id: string
  readonly personal_token_id: string
  readonly product_id: string
  /** A recurring product with a price of zero. */
  readonly free_plan_id: string
  readonly meter_id: string
  readonly discount_id: string
  readonly benefit_id: string
  readonly custom_field_id: string
  readonly customer_id: string
  readonly customer_external_id: string
  /** A member of `customer_id`. */
  readonly person_id: string
  readonly person_external_id: string
  readonly endpoint_id: string
  readonly event_id: string
  readonly replay_id: string
  /** An OAuth client of a person in the organization. */
  readonly client_id: string
  readonly checkout_id: string
  readonly checkout_secret: string
  /** An order of `customer_id`. The payment and the subscription belong to the same customer. */
  readonly order_id: string
  readonly payment_id: string
  readonly refund_id: string
  /** An open dispute over a payment of the same order. */
  readonly dispute_id: string
  /** A payment method of `customer_id`. */
  readonly payment_method_id: string
  readonly subscription_id: string
  readonly test_clock_id: string
  /** A subscription with seats. `seat_id` is one of its seats, with a pending invitation. */
  readonly seated_id: string
  readonly seat_id: string
  /** A benefit that was granted to the customer itself, not to a member. */
  readonly grant_id: string
  readonly file_id: string
  /** A license key of the customer itself, one of its activations, and the plain key. */
  readonly license_key_id: string
  readonly activation_id: string
  readonly license_key: string
  /** A checkout link and its secret. */
  readonly link_id: string
  readonly link_secret: string
  /** The balance that the customer has with the seller. */
  readonly wallet_id: string
  /** A usage event, and the type of its name. */
  readonly usage_event_id: string
  readonly customer_meter_id: string
  /** The meter of `customer_meter_id`, with free units, and a live reservation on it. */
  readonly credited_meter_id: string
  readonly reservation_id: string
  readonly event_type_id: string
  readonly dashboard_id: string
}

export interface Asked {
  readonly path: string
  readonly body?: unknown
  /** The body of a form-encoded request. */
  readonly form?: Record<string, string>
}

export type Credential = 'organization' | 'personal' | 'oauth' | 'session'
export type PortalRole = MemberRole | 'customer'

/**
 * Expected answers of an operation whose access rules fit no other kind of policy, such as an OAuth endpoint. `nobody`: no
 * credential. `bearer`: a token that the operation does not accept. `stranger` and `owner`: a browser session.
 */
export interface Verdicts {
  readonly nobody: string
  readonly bearer: string
  readonly stranger: string
  readonly owner: string
  /** Expected answer to an OAuth token, if the operation accepts OAuth tokens and no other tokens. */
  readonly oauth?: string
}

/**
 * Permissions of one operation, written by hand from the specification and compared with the running server. They are
 * not derived from the server's own declarations. A wrong declaration is therefore detected.
 */
export interface Policy {
  /**
   * Accepted credentials. `open`: every caller, and a credential changes nothing. `person`: a browser session only.
   * `portal`: customer sessions. Otherwise the listed tokens.
   */
  readonly who: 'open' | 'person' | 'portal' | Verdicts | readonly Credential[]
  /** Portal roles that may call the operation. */
  readonly portal?: readonly PortalRole[]
  /** True if roles without permission get the same 404 as for an id that does not exist. */
  readonly hidden?: boolean
  /** True if the operation accepts only sessions of members, not sessions of customers. */
  readonly membersOnly?: boolean
  readonly scopes: readonly Scope[]
  /** Organization roles that may call the operation. If absent, every role may. */
  readonly roles?: readonly OrganizationRole[]
  readonly ask: (target: Target) => Asked
  /** Expected answer to a permitted caller: a status. If the request fails even for permitted callers, also the error name. */
  readonly granted: number | [number, string]
  /** Answer for another tenant's resource and for an absent one. Set if the request names a resource of a tenant. */
  readonly foreign?: 'absent' | 'invalid'
  /** Answer to an OAuth app that is restricted to some organizations. Set if the app is refused even with the right scope. */
  readonly confined?: string
  /** The outer id in a path with two ids. The matrix also combines our outer id with another tenant's inner id, and vice versa. */
  readonly nested?: keyof Target
  /** True if the body names the organization. An organization token must leave it out. */
  readonly implied?: boolean
  /** True if the resource belongs to a person, not to an organization. */
  readonly personal?: boolean
}

export const tokens: readonly Credential[] = ['organization', 'personal', 'oauth', 'session']
export const readers: readonly Scope[] = ['organizations:read', 'organizations:write']
export const writers: readonly Scope[] = ['organizations:write']
export const managers: readonly OrganizationRole[] = ['owner', 'admin']

export const crew: readonly OrganizationRole[] = ['owner', 'admin', 'member']

export const customersRead: readonly Scope[] = ['customers:read', 'customers:write']
export const keysRead: readonly Scope[] = ['license_keys:read', 'license_keys:write']
export const benefitsRead: readonly Scope[] = ['benefits:read', 'benefits:write']
export const hooksRead: readonly Scope[] = ['webhooks:read', 'webhooks:write']
export const seatsRead: readonly Scope[] = ['customer_seats:read']
export const membersRead: readonly Scope[] = ['members:read', 'members:write']
export const everyone: readonly PortalRole[] = ['customer', 'owner', 'billing_manager', 'member']
export const payers: readonly PortalRole[] = ['customer', 'owner', 'billing_manager']
export const leaders: readonly PortalRole[] = ['owner', 'billing_manager']
export const external = (t: Target) => `/v1/customers/external/${t.customer_external_id}`

let serial = 0
/** Returns a new number on every call, for names that must be unique within the run. */
export const unique = (): number => serial++
export const meter = { name: 'Matrix', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } }

/** Policy of a step of the member migration. The organization has completed the migration, so each step is refused. */
export const migrating = (step: string, refusal: string): Policy => ({
  who: tokens,
  scopes: writers,
  roles: managers,
  ask: (t) => ({ path: `/v1/member-migration/${step}`, body: t.organization_id === '' ? {} : { organization_id: t.organization_id } }),
  granted: [409, refusal],
  foreign: 'invalid',
  implied: true,
})
