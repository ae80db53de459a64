import { z } from 'zod'
import { BenefitType } from '../catalog/benefits.ts'
import { externalId } from '../customers/customers.ts'
import { Member } from '../customers/members.ts'
import {
  email,
  failure,
  integerInText,
  merchant,
  named,
  NotPermitted,
  open,
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

/** A place in a team's purchase, and who has it. */
export const CustomerSeat = resource('CustomerSeat', {
  ...stamps,
  id: uuid(),
  subscription_id: uuid().nullable().describe('The subscription it belongs to; null where it was bought with an order.'),
  order_id: uuid().nullable().describe('The one-time order it belongs to.'),
  status: SeatStatus,
  customer_id: uuid().nullable().describe('Who pays, once the organization has members; before that, whoever holds the seat.'),
  member_id: uuid().nullable(),
  member: Member.nullable().describe('Who holds it.'),
  email: z.string().nullable().describe('The address it was assigned to.'),
  customer_email: z.string().nullable().describe("The holder's address; a revoked seat keeps that of its last holder."),
  invitation_token_expires_at: timestamp().nullable().describe('Until when the invitation can be used; null where none is open.'),
  claimed_at: timestamp().nullable(),
  revoked_at: timestamp().nullable(),
  seat_metadata: z.record(z.string(), z.unknown()).nullable(),
})
export type CustomerSeat = z.output<typeof CustomerSeat>

/** The seats of one purchase: the older names, and those of any other collection. */
export const SeatsList = resource('SeatsList', {
  seats: z.array(CustomerSeat).describe('The same records as `items`.'),
  available_seats: z.int().describe('How many more can be assigned.'),
  total_seats: z.int().describe('How many were bought.'),
  items: z.array(CustomerSeat),
  pagination: Pagination,
})
export type SeatsList = z.output<typeof SeatsList>

const given = (body: Readonly<Record<string, unknown>>, names: readonly string[]) => names.filter((name) => body[name] !== undefined && body[name] !== null)
const spoken = (names: readonly string[], word: 'and' | 'or') =>
  names.length < 2 ? (names[0] ?? 'none') : `${names.slice(0, -1).join(', ')} ${word} ${names.at(-1)}`

/** Several fields say the same in different ways: whoever sends none or several did not say what they mean. */
const exactlyOne =
  (names: readonly string[], note = '', isFine: (received: readonly string[]) => boolean = () => false) =>
  (body: Readonly<Record<string, unknown>>, ctx: z.core.$RefinementCtx) => {
    const received = given(body, names)
    if (received.length !== 1 && !isFine(received))
      ctx.addIssue({ code: 'custom', message: `Received ${spoken(received, 'and')}; give exactly one of ${spoken(names, 'or')}${note}.` })
  }

const seatMetadata = () =>
  z
    .record(z.string(), z.unknown())
    .refine((pairs) => Object.keys(pairs).length <= 10, 'Keep at most 10 keys.')
    .refine((pairs) => JSON.stringify(pairs).length <= 1024, 'Keep at most 1024 characters, written as JSON.')

const assigning = {
  subscription_id: uuid().nullish().describe('The subscription whose seat it is.'),
  order_id: uuid().nullish().describe('The one-time order whose seat it is.'),
  email: email().nullish(),
  external_customer_id: externalId().describe('A customer by your own identifier: the seat goes to the member of the buyer who has the same address.'),
  customer_id: uuid().nullish().describe('A customer: the seat goes to the member of the buyer who has the same address.'),
  external_member_id: externalId().describe('A member of the buyer, by your own identifier. With `email` besides, whoever is unknown becomes a member.'),
  member_id: uuid().nullish().describe('A member of the buyer.'),
  metadata: seatMetadata().nullish().describe('Your own facts about the seat: up to 10 keys, 1024 characters as JSON.'),
  immediate_claim: z.boolean().default(false).describe('The seat is taken at once, without an invitation.'),
}

const identifiers = ['email', 'customer_id', 'external_customer_id', 'member_id', 'external_member_id'] as const
const isNewMember = (received: readonly string[]) => received.length === 2 && received.includes('email') && received.includes('external_member_id')

export const SeatAssign = named(
  'SeatAssign',
  z
    .object(assigning)
    .superRefine(exactlyOne(['subscription_id', 'order_id']))
    .superRefine(exactlyOne(identifiers, ', or external_member_id with the email of the same person', isNewMember)),
)
export type SeatAssign = z.output<typeof SeatAssign>

/** The same fields, of which a team may use fewer: it invites by address, or seats the members it has. */
export const CustomerSeatAssign = named(
  'CustomerSeatAssign',
  z
    .object({
      ...assigning,
      external_customer_id: assigning.external_customer_id.describe('Refused: only the seller can use it.'),
      customer_id: assigning.customer_id.describe('Refused: only the seller can use it.'),
      external_member_id: assigning.external_member_id.describe('Refused: only the seller can use it.'),
      member_id: assigning.member_id.describe('A member of the team.'),
      immediate_claim: assigning.immediate_claim.describe('Refused where true: whoever is invited accepts.'),
      checkout_id: uuid().nullish().describe('The checkout whose purchase it is.'),
    })
    .superRefine(exactlyOne(['subscription_id', 'order_id', 'checkout_id']))
    .superRefine((body, ctx) => {
      const foreign = given(body, ['customer_id', 'external_customer_id', 'external_member_id'])
      for (const name of foreign)
        ctx.addIssue({ code: 'custom', path: [name], message: `Received ${name}, which only the seller can use; give email or member_id.` })
      if (foreign.length === 0) exactlyOne(['email', 'member_id'])(body, ctx)
      if (body.immediate_claim)
        ctx.addIssue({ code: 'custom', path: ['immediate_claim'], message: 'Received true, which only the seller can ask for; leave it out.' })
    }),
)
export type CustomerSeatAssign = z.output<typeof CustomerSeatAssign>

export const SeatClaimInfo = resource('SeatClaimInfo', {
  product_name: z.string(),
  product_id: uuid(),
  organization_name: z.string(),
  organization_slug: z.string(),
  customer_email: z.string().describe('The address that is invited.'),
  can_claim: z.boolean(),
  status: named('SeatInvitationStatus', z.enum(['pending', 'claimed', 'expired', 'revoked'])).describe(
    'What became of the invitation, for 30 days after its end; `pending` while it waits to be accepted.',
  ),
  invited_by: z.string().nullable().describe('The name of the customer who pays for the seat.'),
  benefits: z
    .array(resource('SeatClaimBenefit', { id: uuid(), type: BenefitType, description: z.string() }))
    .describe('What the seat gives; not what the seller keeps to itself.'),
})

export const FeatureNotEnabled = failure('FeatureNotEnabled', 403, 'Seats are not enabled for this organization.')
export const SeatNotAvailable = failure('SeatNotAvailable', 400, 'No seat is free here. Revoke one, or buy more.')
export const SeatAlreadyAssigned = failure('SeatAlreadyAssigned', 400, 'This person has a seat here already.')
export const InvalidSeatAssignmentRequest = failure(
  'InvalidSeatAssignmentRequest',
  400,
  'This customer cannot be given a seat: it is unknown, or has no e-mail address.',
)
export const MemberEmailMismatch = failure('MemberEmailMismatch', 400, 'The e-mail address and the external id belong to different members.')
export const SeatNotPending = failure('SeatNotPending', 400, 'This seat is not waiting for anybody: it is claimed or revoked.')
export const InvalidInvitationToken = failure('InvalidInvitationToken', 400, 'This invitation is used, expired or withdrawn. Ask for a new one.')
export const CustomerNotFound = failure('CustomerNotFound', 404, 'There is no such customer.')
export const MemberNotFound = failure('MemberNotFound', 404, 'The buyer has no such member.')

/** Why a seat cannot be given, whoever asks. */
const assignmentRefusals = [ResourceNotFound, FeatureNotEnabled, SeatNotAvailable, SeatAlreadyAssigned, MemberNotFound] as const

const read = merchant('customer_seats:read')
const write = merchant('customer_seats:write')
const enter = portal(['customer_portal:read', 'customer_portal:write'])
const change = portal('customer_portal:write')
const bySeat = z.object({ seat_id: uuid() })

const oneId = () =>
  uuid()
    .or(z.literal('').transform(() => undefined))
    .optional()
// Whoever knows only `seats` asks for no page: they get as many as a page can hold.
const listing = z
  .object({
    subscription_id: oneId().describe('The seats of this subscription.'),
    order_id: oneId().describe('The seats of this one-time order.'),
    ...pageQuery,
    limit: integerInText(z.int().min(1)).default(pageSizeLimit).describe(`Records on a page, ${pageSizeLimit} at most, and unless said otherwise.`),
  })
  .superRefine(exactlyOne(['subscription_id', 'order_id']))

const inviting = 'An invitation goes to the holder, who has it from when they accept. Whoever is not a member of the buyer yet becomes one.'
const resending = 'A new link goes out and counts from now; the one before is void.'
const revoking = 'The holder loses at once what the seat gave, and nobody else does. Revoking again changes nothing.'

export const assignSeat = operation({
  id: 'customer-seats:assign_seat',
  method: 'POST',
  path: '/v1/customer-seats',
  summary: 'Assign a seat',
  description: `${inviting} Name them in exactly one way.`,
  access: write,
  body: SeatAssign,
  returns: CustomerSeat,
  fails: [NotPermitted, ...assignmentRefusals, InvalidSeatAssignmentRequest, MemberEmailMismatch, CustomerNotFound],
})

export const listSeats = operation({
  id: 'customer-seats:list_seats',
  method: 'GET',
  path: '/v1/customer-seats',
  summary: 'List the seats of a purchase',
  description: 'Of a subscription or a one-time order: exactly one of the two. Revoked seats are listed too.',
  access: read,
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
  params: bySeat,
  returns: CustomerSeat,
  fails: [NotPermitted, ResourceNotFound, FeatureNotEnabled],
})

export const resendSeatInvitation = operation({
  id: 'customer-seats:resend_invitation',
  method: 'POST',
  path: '/v1/customer-seats/{seat_id}/resend',
  summary: 'Send an invitation again',
  description: resending,
  access: write,
  params: bySeat,
  returns: CustomerSeat,
  fails: [NotPermitted, ResourceNotFound, FeatureNotEnabled, SeatNotPending, InvalidInvitationToken],
})

const SeatClaim = resource('SeatClaim', { invitation_token: z.string().min(1).max(200) })

// No guessing budget: a link cannot be guessed, and a whole office accepts from one address.
export const getSeatClaimInfo = operation({
  id: 'customer-seats:get_claim_info',
  method: 'GET',
  path: '/v1/customer-seats/claim/{invitation_token}',
  summary: 'See what an invitation is for',
  access: open({ anyOrigin: true }),
  params: z.object({ invitation_token: z.string().min(1).max(200) }),
  returns: SeatClaimInfo,
  fails: [ResourceNotFound, FeatureNotEnabled],
})

export const claimSeat = operation({
  id: 'customer-seats:claim_seat',
  method: 'POST',
  path: '/v1/customer-seats/claim',
  summary: 'Accept an invitation',
  description: 'Trades the token of the link for the seat and a portal session. It works once.',
  access: open({ anyOrigin: true }),
  body: SeatClaim,
  returns: resource('CustomerSeatClaimResponse', {
    seat: CustomerSeat,
    customer_session_token: z.string().describe('A portal session of whoever holds the seat now.'),
  }),
  reveals: true,
  fails: [InvalidInvitationToken, FeatureNotEnabled],
})

export const requestSeatInvitation = operation({
  id: 'customer-seats:request_invitation',
  method: 'POST',
  path: '/v1/customer-seats/claim/request',
  summary: 'Ask for a new invitation',
  description: 'For whoever has a link that ran out: the owner of the team is told by mail, once a day at most. The answer is the same for any token.',
  access: open({ anyOrigin: true }),
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
  description: 'Of a subscription or a one-time order: exactly one of the two.',
  access: enter,
  query: listing,
  returns: SeatsList,
  fails: [NotPermitted, ResourceNotFound, FeatureNotEnabled],
})

export const assignPortalSeat = operation({
  id: 'customer_portal:seats:assign_seat',
  method: 'POST',
  path: '/v1/customer-portal/seats',
  summary: 'Assign a seat',
  description: `${inviting} Name them by e-mail address, or by the id of a member.`,
  access: change,
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
  params: bySeat,
  returns: CustomerSeat,
  fails: [NotPermitted, ResourceNotFound, FeatureNotEnabled],
})

export const resendPortalSeatInvitation = operation({
  id: 'customer_portal:seats:resend_invitation',
  method: 'POST',
  path: '/v1/customer-portal/seats/{seat_id}/resend',
  summary: 'Send an invitation again',
  description: resending,
  access: change,
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
  query: z.object(pageQuery),
  returns: CustomerSubscriptionPage,
  fails: [],
})

export const customerSeatAssigned = webhook('customer_seat.assigned', CustomerSeat, 'A seat is assigned, and its holder invited.')
export const customerSeatClaimed = webhook('customer_seat.claimed', CustomerSeat, 'A seat is taken by its holder, whose access begins.')
export const customerSeatRevoked = webhook('customer_seat.revoked', CustomerSeat, 'A seat is revoked; the record still says who held it.')
