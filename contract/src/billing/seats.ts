import { z } from 'zod'
import { BenefitType } from '../catalog/benefits.ts'
import { externalId } from '../customers/customers.ts'
import { Member } from '../customers/members.ts'
import {
  email,
  failure,
  emptyIsAbsent,
  merchant,
  named,
  NotPermitted,
  openAccess,
  operation,
  pageQuery,
  pageSizeLimit,
  Pagination,
  portal,
  resource,
  ResourceNotFound,
  stamps,
  timestamp,
  uuid,
  webhook,
} from '../kit/index.ts'
import { CustomerSubscriptionPage } from './portal-subscriptions.ts'

export const SeatStatus = named('SeatStatus', z.enum(['pending', 'claimed', 'revoked']))
export type SeatStatus = z.output<typeof SeatStatus>

/** A seat of a team purchase, and its holder. */
export const CustomerSeat = resource('CustomerSeat', {
  ...stamps,
  id: uuid(),
  subscription_id: uuid().nullable().describe('The subscription of the seat; null if it was bought with a one-time order.'),
  order_id: uuid().nullable().describe('The one-time order of the seat.'),
  status: SeatStatus,
  customer_id: uuid().nullable().describe('The buyer, if the organization has members. Before the member migration: the seat holder.'),
  member_id: uuid().nullable(),
  member: Member.nullable().describe('The seat holder.'),
  email: z.string().nullable().describe("The holder's current address. A revoked seat keeps the address of its last holder."),
  customer_email: z.string().nullable().describe('The same address as `email`.'),
  invitation_token_expires_at: timestamp().nullable().describe('When the invitation expires; null if none is open.'),
  claimed_at: timestamp().nullable(),
  revoked_at: timestamp().nullable(),
  seat_metadata: z.record(z.string(), z.unknown()).nullable(),
})
export type CustomerSeat = z.output<typeof CustomerSeat>

/** The maximum length of `seats` in one response. It equals the maximum number of seats in a purchase. */
export const wholePurchaseLimit = 10_000

/** A collection of seats, with the fields `seats`, `available_seats` and `total_seats` of older clients. */
export const SeatsList = resource('SeatsList', {
  seats: z
    .array(CustomerSeat)
    .describe(
      `All seats of the purchase, ${wholePurchaseLimit} at most, if \`subscription_id\` or \`order_id\` is given without \`page\`, \`limit\` and \`cursor\`; otherwise the same records as \`items\`.`,
    ),
  available_seats: z.int().describe('Seats that can still be assigned, over all purchases in the request.'),
  total_seats: z.int().describe('Seats bought, over all purchases in the request.'),
  items: z.array(CustomerSeat),
  pagination: Pagination,
})
export type SeatsList = z.output<typeof SeatsList>

const given = (body: Readonly<Record<string, unknown>>, names: readonly string[]) => names.filter((name) => body[name] !== undefined && body[name] !== null)
const spoken = (names: readonly string[], word: 'and' | 'or') =>
  names.length < 2 ? (names[0] ?? 'none') : `${names.slice(0, -1).join(', ')} ${word} ${names.at(-1)}`

/** Requires exactly one of several alternative fields. With none or several of them, the request is ambiguous. */
const exactlyOne = (names: readonly string[]) => (body: Readonly<Record<string, unknown>>, ctx: z.core.$RefinementCtx) => {
  const received = given(body, names)
  if (received.length !== 1) ctx.addIssue({ code: 'custom', message: `Received ${spoken(received, 'and')}; give exactly one of ${spoken(names, 'or')}.` })
}

const atMostOne = (names: readonly string[]) => (query: Readonly<Record<string, unknown>>, ctx: z.core.$RefinementCtx) => {
  const received = given(query, names)
  if (received.length > 1) ctx.addIssue({ code: 'custom', message: `Received ${spoken(received, 'and')}; give at most one of ${spoken(names, 'or')}.` })
}

const seatMetadata = () =>
  z
    .record(z.string(), z.unknown())
    .refine((pairs) => Object.keys(pairs).length <= 10, 'Keep at most 10 keys.')
    .refine((pairs) => JSON.stringify(pairs).length <= 1024, 'Keep at most 1024 characters, written as JSON.')
    .meta({ maxProperties: 10 })

const assigning = {
  subscription_id: uuid().nullish().describe('The subscription that the seat belongs to.'),
  order_id: uuid().nullish().describe('The one-time order that the seat belongs to.'),
  email: email().nullish(),
  external_customer_id: externalId().describe("A customer by your own identifier. The seat goes to the buyer's member with the same address."),
  customer_id: uuid().nullish().describe("A customer. The seat goes to the buyer's member with the same address."),
  external_member_id: externalId().describe('A member of the buyer, by your own identifier.'),
  member_id: uuid().nullish().describe('A member of the buyer.'),
  metadata: seatMetadata().nullish().describe('Your own data about the seat: up to 10 keys, 1024 characters as JSON.'),
  immediate_claim: z.boolean().default(false).describe('Claims the seat at once, without an invitation.'),
}

const identifiers = ['email', 'customer_id', 'external_customer_id', 'member_id', 'external_member_id'] as const

export const SeatAssign = named(
  'SeatAssign',
  z
    .object(assigning)
    .superRefine(exactlyOne(['subscription_id', 'order_id']))
    .superRefine(exactlyOne(identifiers)),
)
export type SeatAssign = z.output<typeof SeatAssign>

/** The fields of a seat assignment in the portal. A team can assign seats only by e-mail address or to its existing members. */
export const CustomerSeatAssign = named(
  'CustomerSeatAssign',
  z
    .object({
      ...assigning,
      external_customer_id: assigning.external_customer_id.describe('Rejected here: only the seller can use it.'),
      customer_id: assigning.customer_id.describe('Rejected here: only the seller can use it.'),
      external_member_id: assigning.external_member_id.describe('Rejected here: only the seller can use it.'),
      member_id: assigning.member_id.describe('A member of the team.'),
      immediate_claim: assigning.immediate_claim.describe('True is rejected: the invited person must accept the invitation.'),
      checkout_id: uuid().nullish().describe('The checkout of the purchase.'),
    })
    .superRefine(exactlyOne(['subscription_id', 'order_id', 'checkout_id']))
    .superRefine((body, ctx) => {
      const foreign = given(body, ['customer_id', 'external_customer_id', 'external_member_id'])
      for (const name of foreign)
        ctx.addIssue({ code: 'custom', path: [name], message: `Received ${name}, which only the seller can use; give email or member_id.` })
      if (foreign.length === 0) exactlyOne(['email', 'member_id'])(body, ctx)
      if (body.immediate_claim)
        ctx.addIssue({ code: 'custom', path: ['immediate_claim'], message: 'Received true, which only the seller can use; leave it out.' })
    }),
)
export type CustomerSeatAssign = z.output<typeof CustomerSeatAssign>

export const SeatClaimInfo = resource('SeatClaimInfo', {
  product_name: z.string(),
  product_cover_url: z.string().nullable().describe('The first picture of the product.'),
  product_id: uuid(),
  organization_name: z.string(),
  organization_slug: z.string(),
  customer_email: z.string().describe('The invited address.'),
  can_claim: z.boolean(),
  status: named('SeatInvitationStatus', z.enum(['pending', 'claimed', 'expired', 'revoked'])).describe(
    'The status of the invitation. Readable for 30 days after the invitation ended.',
  ),
  invited_by: z.string().nullable().describe('The name of the customer who pays for the seat.'),
  benefits: z
    .array(resource('SeatClaimBenefit', { id: uuid(), type: BenefitType, description: z.string() }))
    .describe('The benefits of the seat. Benefits that the seller hides are left out.'),
})

export const FeatureNotEnabled = failure('FeatureNotEnabled', 403, 'Seats are not enabled for this organization.')
export const SeatNotAvailable = failure('SeatNotAvailable', 400, 'No seat is free in this purchase. Revoke one, or buy more.')
export const SeatAlreadyAssigned = failure('SeatAlreadyAssigned', 400, 'This person already has a seat in this purchase.')
export const InvalidSeatAssignmentRequest = failure(
  'InvalidSeatAssignmentRequest',
  400,
  'This customer cannot get a seat: the customer is unknown or has no e-mail address.',
)
export const SeatNotPending = failure('SeatNotPending', 400, 'This seat has no open invitation: it is claimed or revoked.')
export const InvalidInvitationToken = failure('InvalidInvitationToken', 400, 'This invitation was used or withdrawn, or has expired. Ask for a new one.')
export const CustomerNotFound = failure('CustomerNotFound', 404, 'There is no such customer.')
export const MemberNotFound = failure('MemberNotFound', 404, 'The buyer has no such member.')

/** The failures of a seat assignment, for merchants and portal users alike. */
const assignmentRefusals = [ResourceNotFound, FeatureNotEnabled, SeatNotAvailable, SeatAlreadyAssigned, MemberNotFound] as const

const read = merchant('customer_seats:read')
const write = merchant('customer_seats:write')
const enter = portal(['customer_portal:read', 'customer_portal:write'])
const change = portal('customer_portal:write')
const bySeat = z.object({ seat_id: uuid() })

const oneId = () => emptyIsAbsent(uuid())
// The schema sets no default for page and limit, because the server must know whether the caller requested a page.
const listingFields = {
  subscription_id: oneId().describe('Only the seats of this subscription.'),
  order_id: oneId().describe('Only the seats of this one-time order.'),
  ...pageQuery,
  page: pageQuery.page.unwrap().optional().meta({ default: 1, description: 'One-based page number.' }),
  limit: pageQuery.limit
    .unwrap()
    .optional()
    .meta({ default: 10, maximum: pageSizeLimit, description: `Records on a page. A number above ${pageSizeLimit} is treated as ${pageSizeLimit}.` }),
}
const listing = z.object(listingFields).superRefine(atMostOne(['subscription_id', 'order_id']))
const portalListing = z.object(listingFields).superRefine(exactlyOne(['subscription_id', 'order_id']))
export type SeatListing = z.output<typeof listing>

const inviting = 'Sends an invitation to the holder, who gets the seat by accepting it. A person who is not a member of the buyer yet becomes one.'
const resending = 'Sends a new link. The earlier link becomes invalid.'
const revoking = 'The holder loses the benefits of the seat at once. Idempotent: revoking again changes nothing.'

export const assignSeat = operation({
  id: 'customer-seats:assign_seat',
  method: 'POST',
  path: '/v1/customer-seats',
  summary: 'Assign a seat',
  description: `${inviting} Identify the holder in exactly one way.`,
  access: write,
  costs: ['mail', 'jobs'],
  body: SeatAssign,
  returns: CustomerSeat,
  fails: [NotPermitted, ...assignmentRefusals, InvalidSeatAssignmentRequest, CustomerNotFound],
})

export const listSeats = operation({
  id: 'customer-seats:list_seats',
  method: 'GET',
  path: '/v1/customer-seats',
  summary: 'List seats',
  description:
    'All seats within the scope of the token, newest first. With `subscription_id` or `order_id`: the seats of that purchase, in the order of their assignment. Revoked seats are included.',
  access: read,
  costs: 'none',
  query: listing,
  returns: SeatsList,
  fails: [ResourceNotFound, FeatureNotEnabled],
})

export const getSeat = operation({
  id: 'customer-seats:get',
  method: 'GET',
  path: '/v1/customer-seats/{seat_id}',
  summary: 'Get a seat',
  access: read,
  costs: 'none',
  params: bySeat,
  returns: CustomerSeat,
  fails: [ResourceNotFound, FeatureNotEnabled],
})

export const revokeSeat = operation({
  id: 'customer-seats:revoke_seat',
  method: 'DELETE',
  path: '/v1/customer-seats/{seat_id}',
  summary: 'Revoke a seat',
  description: revoking,
  access: write,
  costs: 'jobs',
  params: bySeat,
  returns: CustomerSeat,
  fails: [NotPermitted, ResourceNotFound, FeatureNotEnabled],
})

export const resendSeatInvitation = operation({
  id: 'customer-seats:resend_invitation',
  method: 'POST',
  path: '/v1/customer-seats/{seat_id}/resend',
  summary: 'Resend an invitation',
  description: resending,
  access: write,
  costs: 'mail',
  params: bySeat,
  returns: CustomerSeat,
  fails: [NotPermitted, ResourceNotFound, FeatureNotEnabled, SeatNotPending, InvalidInvitationToken],
})

const SeatClaim = resource('SeatClaim', { invitation_token: z.string().min(1).max(200) })

// Uses no rate limit against guessing. The token cannot be guessed, and a whole office may accept invitations from one IP address.
export const getSeatClaimInfo = operation({
  id: 'customer-seats:get_claim_info',
  method: 'GET',
  path: '/v1/customer-seats/claim/{invitation_token}',
  summary: 'Get the details of an invitation',
  access: openAccess({ anyOrigin: true }),
  costs: 'none',
  params: z.object({ invitation_token: z.string().min(1).max(200) }),
  returns: SeatClaimInfo,
  fails: [ResourceNotFound, FeatureNotEnabled],
})

export const claimSeat = operation({
  id: 'customer-seats:claim_seat',
  method: 'POST',
  path: '/v1/customer-seats/claim',
  summary: 'Accept an invitation',
  description: 'Exchanges the token of the link for the seat and a portal session. The token works once.',
  access: openAccess({ anyOrigin: true }),
  costs: 'jobs',
  body: SeatClaim,
  returns: resource('CustomerSeatClaimResponse', {
    seat: CustomerSeat,
    customer_session_token: z.string().describe('A portal session of the seat holder.'),
  }),
  reveals: true,
  fails: [InvalidInvitationToken, FeatureNotEnabled],
})

export const requestSeatInvitation = operation({
  id: 'customer-seats:request_invitation',
  method: 'POST',
  path: '/v1/customer-seats/claim/request',
  summary: 'Request a new invitation',
  description: 'For people whose link has expired: the owner of the team is notified by e-mail, at most once a day. The answer is the same for any token.',
  access: openAccess({ anyOrigin: true }),
  costs: 'mail',
  budget: 'sign_in',
  body: SeatClaim,
  status: 202,
  fails: [],
})

export const listPortalSeats = operation({
  id: 'customer_portal:seats:list_seats',
  method: 'GET',
  path: '/v1/customer-portal/seats',
  summary: 'List the seats of a purchase',
  description: 'Of a subscription or a one-time order: give exactly one of the two.',
  access: enter,
  costs: 'none',
  query: portalListing,
  returns: SeatsList,
  fails: [NotPermitted, ResourceNotFound, FeatureNotEnabled],
})

export const assignPortalSeat = operation({
  id: 'customer_portal:seats:assign_seat',
  method: 'POST',
  path: '/v1/customer-portal/seats',
  summary: 'Assign a seat',
  description: `${inviting} Identify the holder by e-mail address, or by the id of a member.`,
  access: change,
  costs: 'mail',
  body: CustomerSeatAssign,
  returns: CustomerSeat,
  fails: [NotPermitted, ...assignmentRefusals],
})

export const revokePortalSeat = operation({
  id: 'customer_portal:seats:revoke_seat',
  method: 'DELETE',
  path: '/v1/customer-portal/seats/{seat_id}',
  summary: 'Revoke a seat',
  description: revoking,
  access: change,
  costs: 'jobs',
  params: bySeat,
  returns: CustomerSeat,
  fails: [NotPermitted, ResourceNotFound, FeatureNotEnabled],
})

export const resendPortalSeatInvitation = operation({
  id: 'customer_portal:seats:resend_invitation',
  method: 'POST',
  path: '/v1/customer-portal/seats/{seat_id}/resend',
  summary: 'Resend an invitation',
  description: resending,
  access: change,
  costs: 'mail',
  params: bySeat,
  returns: CustomerSeat,
  fails: [NotPermitted, ResourceNotFound, FeatureNotEnabled, SeatNotPending, InvalidInvitationToken],
})

export const listClaimedSubscriptions = operation({
  id: 'customer_portal:seats:list_claimed_subscriptions',
  method: 'GET',
  path: '/v1/customer-portal/seats/subscriptions',
  summary: 'List the subscriptions in which you have a seat',
  access: enter,
  costs: 'none',
  query: z.object(pageQuery),
  returns: CustomerSubscriptionPage,
  fails: [],
})

export const customerSeatAssigned = webhook('customer_seat.assigned', CustomerSeat, 'A seat is assigned, and its holder is invited.')
export const customerSeatClaimed = webhook('customer_seat.claimed', CustomerSeat, 'A seat is claimed by its holder, whose access begins.')
export const customerSeatRevoked = webhook('customer_seat.revoked', CustomerSeat, 'A seat is revoked; the record still names its last holder.')
