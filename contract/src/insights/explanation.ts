import { z } from 'zod'
import { BenefitType } from '../catalog/benefits.ts'
import { merchant, named, NotPermitted, operation, resource, ResourceNotFound, timestamp, uuid } from '../kit/index.ts'

export const AccessLinkKind = named('AccessLinkKind', z.enum(['order', 'subscription', 'seat', 'grant']))
export type AccessLinkKind = z.output<typeof AccessLinkKind>

/** One step from the purchase to the benefit. */
export const AccessLink = resource('AccessLink', {
  kind: AccessLinkKind,
  id: uuid(),
  state: z.string().describe('The status of the resource, such as `active`, `claimed` or `granted`.'),
  holds: z.boolean().describe('True if this step gives access now.'),
  since: timestamp().nullable().describe('Since when the resource has given access.'),
  until: timestamp().nullable().describe('When the resource stopped giving access, or will stop; null if neither is known.'),
  note: z.string().nullable().describe('Why this step gives no access; null if it does.'),
})
export type AccessLink = z.output<typeof AccessLink>

export const AccessEnding = resource('AccessEnding', {
  cause: z.enum([
    'subscription_ends',
    'subscription_canceled',
    'payment_fails',
    'grace_ends',
    'order_refunded_with_benefits',
    'seat_revoked',
    'benefit_removed_from_product',
    'grant_revoked_by_seller',
    'license_key_expires',
  ]),
  resource_id: uuid(),
  at: timestamp().nullable().describe('When this will happen; null if it is not planned.'),
})
export type AccessEnding = z.output<typeof AccessEnding>

/** A way in which a recipient has, had or may get a benefit: one purchase with its seat and its grant. */
export const AccessChain = resource('AccessChain', {
  has_access: z.boolean(),
  by_hand: z.boolean().describe('True if the seller granted the benefit by hand. Such a chain has only a grant.'),
  product_id: uuid().nullable(),
  links: z.array(AccessLink).describe('In the order purchase, seat, grant. A step that does not exist is left out.'),
  ends: z.array(AccessEnding).describe('What would end this access. Empty if there is none.'),
})
export type AccessChain = z.output<typeof AccessChain>

export const AccessExplanation = resource('AccessExplanation', {
  has_access: z.boolean(),
  reason: z
    .enum(['granted', 'pending', 'failed', 'withheld', 'revoked', 'no_seat', 'never_granted'])
    .describe('`no_seat`: the purchase needs a seat, and the person has none. `withheld`: the seller has revoked the grant by hand.'),
  benefit_id: uuid(),
  benefit_type: BenefitType,
  benefit_description: z.string(),
  customer_id: uuid().describe('The customer who pays.'),
  member_id: uuid().nullable(),
  chains: z.array(AccessChain).describe('Those with access first, then the newest. At most 20.'),
  complete: z.boolean().describe('False if there are more chains.'),
})
export type AccessExplanation = z.output<typeof AccessExplanation>

export const explainAccess = operation({
  id: 'access:explain',
  method: 'GET',
  path: '/v1/access/explanation',
  summary: 'Explain why a person has a benefit or not',
  description:
    'Shows each chain from order or subscription over seat to grant, with times and states, and what would end it. Send `customer_id` or `member_id`.',
  access: merchant(['customers:read', 'customers:write']),
  costs: 'none',
  query: z.object({
    customer_id: uuid().optional().describe('For what the customer itself has.'),
    member_id: uuid().optional().describe('For what a member has. The owner also has what the customer itself has. Not together with `customer_id`.'),
    benefit_id: uuid(),
  }),
  returns: AccessExplanation,
  fails: [NotPermitted, ResourceNotFound],
})
