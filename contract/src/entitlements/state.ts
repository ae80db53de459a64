import { z } from 'zod'
import { SubscriptionMeter, subscriptionShape } from '../billing/subscriptions.ts'
import { CustomFieldData } from '../catalog/custom-fields.ts'
import { Metadata } from '../catalog/metadata.ts'
import { AmbiguousExternalCustomerID, byCustomerId, byExternalId, CustomerIndividual, CustomerTeam, NoSuchCustomer } from '../customers/customers.ts'
import { merchant, named, operation, resource, stamps, timestamp, uuid, webhook } from '../kit/index.ts'
import { grantProperties } from './grants.ts'

const { meter: _meter, ...meterShape } = SubscriptionMeter.shape

export const CustomerStateSubscription = resource('CustomerStateSubscription', {
  ...stamps,
  id: uuid(),
  metadata: Metadata,
  custom_field_data: CustomFieldData,
  status: z.enum(['active', 'trialing']),
  amount: subscriptionShape.amount,
  currency: z.string(),
  recurring_interval: subscriptionShape.recurring_interval,
  current_period_start: timestamp(),
  current_period_end: subscriptionShape.current_period_end,
  trial_start: timestamp().nullable(),
  trial_end: timestamp().nullable(),
  cancel_at_period_end: subscriptionShape.cancel_at_period_end,
  canceled_at: subscriptionShape.canceled_at,
  started_at: timestamp().nullable(),
  ends_at: subscriptionShape.ends_at,
  product_id: uuid(),
  discount_id: uuid().nullable(),
  meters: z.array(resource('CustomerStateSubscriptionMeter', meterShape)),
})

const held = <K extends keyof typeof grantProperties>(name: string, kind: K) =>
  resource(`CustomerStateBenefitGrant${name}`, {
    ...stamps,
    id: uuid(),
    granted_at: timestamp(),
    benefit_id: uuid(),
    benefit_type: z.literal(kind),
    benefit_metadata: Metadata,
    member_id: uuid().nullable().describe('Whose it is: a member of the team, or the owner.'),
    properties: grantProperties[kind],
  })

export const CustomerStateBenefitGrant = named(
  'CustomerStateBenefitGrant',
  z.discriminatedUnion('benefit_type', [
    held('Custom', 'custom'),
    held('Discord', 'discord'),
    held('GitHubRepository', 'github_repository'),
    held('Downloadables', 'downloadables'),
    held('LicenseKeys', 'license_keys'),
    held('MeterCredit', 'meter_credit'),
    held('FeatureFlag', 'feature_flag'),
    held('SlackSharedChannel', 'slack_shared_channel'),
  ]),
)
export type CustomerStateBenefitGrant = z.output<typeof CustomerStateBenefitGrant>

export const CustomerStateMeter = resource('CustomerStateMeter', {
  ...stamps,
  id: uuid(),
  meter_id: uuid(),
  consumed_units: z.number(),
  credited_units: z.int(),
  balance: z.number().describe('What is left of the credits; below zero where more was used.'),
})

const standing = {
  active_subscriptions: z.array(CustomerStateSubscription).describe('Active or trialing.'),
  granted_benefits: z.array(CustomerStateBenefitGrant).describe('What the customer and its members have now.'),
  active_meters: z.array(CustomerStateMeter),
  is_complete: z
    .boolean()
    .describe('False where there are more benefits than are told: an event tells 1,000, an answer 10,000. Ask for one member, or list the grants.'),
}

/** All that an application has to know about a customer to let people in. */
export const CustomerState = named(
  'CustomerState',
  z.discriminatedUnion('type', [
    resource('CustomerStateIndividual', { ...CustomerIndividual.shape, ...standing }),
    resource('CustomerStateTeam', { ...CustomerTeam.shape, ...standing }),
  ]),
)
export type CustomerState = z.output<typeof CustomerState>

export const CustomerStateToken = resource('CustomerStateToken', {
  token: z.string().describe('The state as a JSON Web Signature; the keys are at /.well-known/jwks.json.'),
  expires_at: timestamp().describe('Until when to trust it.'),
})

const read = merchant(['customers:read', 'customers:write'])
const query = z.object({ member_id: uuid().optional().describe('Only the benefits of this member; for the owner, those of the customer itself as well.') })
const knowing = 'Active subscriptions, benefits that are granted, and meters, in one answer.'
const signing = 'The same, signed and short-lived: an application can check it by itself, without asking again.'

export const getCustomerState = operation({
  id: 'customers:get_state',
  method: 'GET',
  path: '/v1/customers/{id}/state',
  summary: 'Get what a customer has',
  description: knowing,
  access: read,
  params: byCustomerId,
  query,
  returns: CustomerState,
  fails: [NoSuchCustomer],
})

export const getExternalCustomerState = operation({
  id: 'customers:get_state_external',
  method: 'GET',
  path: '/v1/customers/external/{external_id}/state',
  summary: 'Get what a customer has, by external id',
  description: knowing,
  access: read,
  params: byExternalId,
  query,
  returns: CustomerState,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

export const getCustomerStateToken = operation({
  id: 'customers:get_state_token',
  method: 'GET',
  path: '/v1/customers/{id}/state/token',
  summary: 'Get what a customer has, signed',
  description: signing,
  access: read,
  params: byCustomerId,
  query,
  returns: CustomerStateToken,
  fails: [NoSuchCustomer],
})

export const getExternalCustomerStateToken = operation({
  id: 'customers:get_state_token_external',
  method: 'GET',
  path: '/v1/customers/external/{external_id}/state/token',
  summary: 'Get what a customer has, signed, by external id',
  description: signing,
  access: read,
  params: byExternalId,
  query,
  returns: CustomerStateToken,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

export const customerStateChanged = webhook(
  'customer.state_changed',
  CustomerState,
  'What a customer or its members have changes; changes close together are told once.',
)
