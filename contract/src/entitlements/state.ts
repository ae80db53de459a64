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
    member_id: uuid().nullable().describe('The member who has the benefit: a member of the team, or the owner.'),
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
  balance: z.number().describe('The remaining credits; negative if more was used.'),
  reserved_units: z.number().describe('Units that live reservations hold. The balance contains them.'),
  as_of: timestamp().describe('The age of the numbers: usage whose ingest was answered before this time is counted.'),
})

const standing = {
  active_subscriptions: z.array(CustomerStateSubscription).describe('Active or trialing.'),
  granted_benefits: z.array(CustomerStateBenefitGrant).describe('The benefits that the customer and its members have now.'),
  active_meters: z.array(CustomerStateMeter),
  is_complete: z
    .boolean()
    .describe('False if there are more benefits than listed: an event lists 1,000, an answer 10,000. Request a single member, or list the grants.'),
}

/** The state of a customer that an application needs to decide about access. */
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
  expires_at: timestamp().describe('When the token expires.'),
})

const read = merchant(['customers:read', 'customers:write'])
const query = z.object({ member_id: uuid().optional().describe('Only the benefits of this member. For the owner, also the benefits of the customer itself.') })
const knowing = 'Active subscriptions, granted benefits and meters in one answer.'
const signing = 'The same data, signed and short-lived. An application can verify it without another request.'

export const getCustomerState = operation({
  id: 'customers:get_state',
  method: 'GET',
  path: '/v1/customers/{id}/state',
  summary: 'Get the state of a customer',
  description: knowing,
  access: read,
  costs: 'none',
  params: byCustomerId,
  query,
  returns: CustomerState,
  fails: [NoSuchCustomer],
})

export const getExternalCustomerState = operation({
  id: 'customers:get_state_external',
  method: 'GET',
  path: '/v1/customers/external/{external_id}/state',
  summary: 'Get the state of a customer by external id',
  description: knowing,
  access: read,
  costs: 'none',
  params: byExternalId,
  query,
  returns: CustomerState,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

export const getCustomerStateToken = operation({
  id: 'customers:get_state_token',
  method: 'GET',
  path: '/v1/customers/{id}/state/token',
  summary: 'Get the signed state of a customer',
  description: signing,
  access: read,
  costs: 'none',
  params: byCustomerId,
  query,
  returns: CustomerStateToken,
  fails: [NoSuchCustomer],
})

export const getExternalCustomerStateToken = operation({
  id: 'customers:get_state_token_external',
  method: 'GET',
  path: '/v1/customers/external/{external_id}/state/token',
  summary: 'Get the signed state of a customer by external id',
  description: signing,
  access: read,
  costs: 'none',
  params: byExternalId,
  query,
  returns: CustomerStateToken,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

export const customerStateChanged = webhook(
  'customer.state_changed',
  CustomerState,
  'The access of a customer or its members changes. Changes close together are sent as one event.',
)
