import { z } from 'zod'
import {
  BenefitCustom,
  BenefitDiscord,
  BenefitDownloadables,
  BenefitFeatureFlag,
  BenefitGitHubRepository,
  BenefitLicenseKeys,
  BenefitMeterCredit,
  BenefitSlackSharedChannel,
  BenefitType,
  GitHubPermission,
} from '../catalog/benefits.ts'
import { Metadata } from '../catalog/metadata.ts'
import { BenefitPublic } from '../catalog/storefront.ts'
import { Customer } from '../customers/customers.ts'
import { Member } from '../customers/members.ts'
import { CustomerPortalCustomer } from '../customers/portal.ts'
import {
  email,
  filter,
  flagInText,
  merchant,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  portal,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  text,
  timestamp,
  uuid,
  webhook,
} from '../kit/index.ts'
import { SubscriptionProrationBehavior } from '../organizations/organizations.ts'

/** The data that a grant of each benefit type stores. Types without data have an empty record. */
export const grantProperties = {
  custom: resource('BenefitGrantCustomProperties', {}),
  discord: resource('BenefitGrantDiscordProperties', {
    account_id: z.string().nullish().describe('The linked account that will get the role.'),
    guild_id: z.string().optional(),
    role_id: z.string().optional(),
    granted_account_id: z.string().optional().describe('The account that has the role.'),
  }),
  github_repository: resource('BenefitGrantGitHubRepositoryProperties', {
    account_id: z.string().nullish().describe('The linked account that will be invited.'),
    repository_owner: z.string().optional(),
    repository_name: z.string().optional(),
    permission: GitHubPermission.optional(),
    granted_account_id: z.string().optional().describe('The account that was invited.'),
  }),
  downloadables: resource('BenefitGrantDownloadablesProperties', { files: z.array(z.string()).optional() }),
  license_keys: resource('BenefitGrantLicenseKeysProperties', {
    user_provided_key: z.string().optional(),
    license_key_id: z.string().optional(),
    display_key: z.string().optional().describe('The last characters of the key.'),
  }),
  meter_credit: resource('BenefitGrantMeterCreditProperties', {
    last_credited_meter_id: z.string().optional(),
    last_credited_units: z.int().optional(),
    last_credited_at: z.string().optional().describe('ISO 8601.'),
  }),
  feature_flag: resource('BenefitGrantFeatureFlagProperties', {}),
  slack_shared_channel: resource('BenefitGrantSlackSharedChannelProperties', {
    invited_email: z.string().optional(),
    channel_id: z.string().optional(),
    channel_name: z.string().optional(),
    invite_id: z.string().optional(),
    invite_url: z.string().optional(),
    connected_team_id: z.string().optional(),
  }),
}
type Kind = keyof typeof grantProperties
export type GrantProperties = { [K in Kind]: z.output<(typeof grantProperties)[K]> }

export const BenefitGrantError = resource('BenefitGrantError', {
  message: z.string().describe('Why the benefit could not be granted, and what to do next.'),
  type: z.string(),
  timestamp: timestamp(),
})
export type BenefitGrantError = z.output<typeof BenefitGrantError>

const common = {
  ...stamps,
  id: uuid(),
  granted_at: timestamp().nullable(),
  is_granted: z.boolean(),
  revoked_at: timestamp().nullable(),
  is_revoked: z.boolean(),
  subscription_id: uuid().nullable().describe('The subscription of the grant; null if there is none.'),
  order_id: uuid().nullable().describe('The one-time order of the grant. If both are null, the benefit was granted by hand.'),
  customer_id: uuid().describe('The customer who pays.'),
  member_id: uuid().nullable().describe('The member who has the benefit.'),
  benefit_id: uuid(),
  error: BenefitGrantError.nullable().describe('The last error; null after a success.'),
}

const benefits = {
  custom: BenefitCustom,
  discord: BenefitDiscord,
  github_repository: BenefitGitHubRepository,
  downloadables: BenefitDownloadables,
  license_keys: BenefitLicenseKeys,
  meter_credit: BenefitMeterCredit,
  feature_flag: BenefitFeatureFlag,
  slack_shared_channel: BenefitSlackSharedChannel,
}

/** The fields of a grant. The benefit type is repeated at the top level, so that clients can choose the schema of the properties by it. */
const shape = <K extends Kind>(kind: K) => ({
  ...common,
  benefit_type: z.literal(kind).describe('The type of the benefit.'),
  customer: Customer,
  member: Member.nullable().describe('The seat holder; null if the customer bought for itself.'),
  benefit: benefits[kind],
  properties: grantProperties[kind],
})
const grant = <K extends Kind>(name: string, kind: K) => resource(name, shape(kind))
const announced = <K extends Kind>(name: string, kind: K) =>
  resource(name, {
    ...shape(kind),
    previous_properties: grantProperties[kind].nullable().describe('The properties before the change; null if they did not change.'),
  })

/** The grant of a benefit to a customer or member: active, revoked or failed. */
export const BenefitGrant = named(
  'BenefitGrant',
  z.discriminatedUnion('benefit_type', [
    grant('BenefitGrantCustom', 'custom'),
    grant('BenefitGrantDiscord', 'discord'),
    grant('BenefitGrantGitHubRepository', 'github_repository'),
    grant('BenefitGrantDownloadables', 'downloadables'),
    grant('BenefitGrantLicenseKeys', 'license_keys'),
    grant('BenefitGrantMeterCredit', 'meter_credit'),
    grant('BenefitGrantFeatureFlag', 'feature_flag'),
    grant('BenefitGrantSlackSharedChannel', 'slack_shared_channel'),
  ]),
)
export type BenefitGrant = z.output<typeof BenefitGrant>

/** A grant as sent in webhooks. */
export const BenefitGrantWebhook = named(
  'BenefitGrantWebhook',
  z.discriminatedUnion('benefit_type', [
    announced('BenefitGrantCustomWebhook', 'custom'),
    announced('BenefitGrantDiscordWebhook', 'discord'),
    announced('BenefitGrantGitHubRepositoryWebhook', 'github_repository'),
    announced('BenefitGrantDownloadablesWebhook', 'downloadables'),
    announced('BenefitGrantLicenseKeysWebhook', 'license_keys'),
    announced('BenefitGrantMeterCreditWebhook', 'meter_credit'),
    announced('BenefitGrantFeatureFlagWebhook', 'feature_flag'),
    announced('BenefitGrantSlackSharedChannelWebhook', 'slack_shared_channel'),
  ]),
)
export type BenefitGrantWebhook = z.output<typeof BenefitGrantWebhook>

export const BenefitSubscriberOrganization = resource('BenefitSubscriberOrganization', {
  ...stamps,
  id: uuid(),
  name: z.string(),
  slug: z.string(),
  avatar_url: z.string().nullable(),
  proration_behavior: SubscriptionProrationBehavior,
  allow_customer_updates: z.boolean(),
})

/** The properties of each benefit type that its holder sees. */
const shown = {
  custom: resource('BenefitCustomSubscriberProperties', { note: z.string().nullable().describe('Shown after the benefit is granted.') }),
  discord: resource('BenefitDiscordSubscriberProperties', { guild_id: z.string() }),
  github_repository: resource('BenefitGitHubRepositorySubscriberProperties', { repository_owner: z.string(), repository_name: z.string() }),
  downloadables: resource('BenefitDownloadablesSubscriberProperties', { active_files: z.array(uuid()) }),
  license_keys: resource('BenefitLicenseKeysSubscriberProperties', BenefitLicenseKeys.shape.properties.shape),
  meter_credit: resource('BenefitMeterCreditSubscriberProperties', BenefitMeterCredit.shape.properties.shape),
  feature_flag: resource('BenefitFeatureFlagSubscriberProperties', {}),
  slack_shared_channel: resource('BenefitSlackSharedChannelSubscriberProperties', {}),
}

const held = <K extends Kind>(name: string, kind: K) =>
  resource(`CustomerBenefitGrant${name}`, {
    ...common,
    benefit_type: z.literal(kind).describe('The type of the benefit.'),
    customer: CustomerPortalCustomer,
    benefit: resource(`Benefit${name}Subscriber`, {
      ...BenefitPublic.shape,
      type: z.literal(kind),
      metadata: Metadata.describe('Always empty: metadata of the seller is not shown to holders. Kept for older clients.'),
      organization: BenefitSubscriberOrganization,
      properties: shown[kind],
    }),
    properties: grantProperties[kind],
  })

/** A grant as its holder sees it. */
export const CustomerBenefitGrant = named(
  'CustomerBenefitGrant',
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
export type CustomerBenefitGrant = z.output<typeof CustomerBenefitGrant>

const linked = { account_id: text(1, 256).nullable().describe('A linked account of the portal; null removes it.') }
const updating = <K extends Kind, S extends z.core.$ZodLooseShape>(name: string, kind: K, fields: S) =>
  resource(`CustomerBenefitGrant${name}Update`, { benefit_type: z.literal(kind), ...fields })

/** Data that some benefit types need from the holder before they can be granted. */
export const CustomerBenefitGrantUpdate = named(
  'CustomerBenefitGrantUpdate',
  z.discriminatedUnion('benefit_type', [
    updating('Custom', 'custom', {}),
    updating('Discord', 'discord', { properties: resource('CustomerBenefitGrantDiscordPropertiesUpdate', linked) }),
    updating('GitHubRepository', 'github_repository', { properties: resource('CustomerBenefitGrantGitHubRepositoryPropertiesUpdate', linked) }),
    updating('Downloadables', 'downloadables', {}),
    updating('LicenseKeys', 'license_keys', {}),
    updating('MeterCredit', 'meter_credit', {}),
    updating('FeatureFlag', 'feature_flag', {}),
    updating('SlackSharedChannel', 'slack_shared_channel', {
      properties: resource('CustomerBenefitGrantSlackSharedChannelPropertiesUpdate', {
        invited_email: email().describe('The person to invite to the channel.'),
      }),
    }),
  ]),
)
export type CustomerBenefitGrantUpdate = z.output<typeof CustomerBenefitGrantUpdate>

export const BenefitGrantCreate = resource('BenefitGrantCreate', {
  customer_id: uuid(),
  benefit_id: uuid().describe('A benefit of the same organization.'),
  member_id: uuid().nullish().describe('The member who gets the benefit. Defaults to the owner.'),
})

const read = merchant(['benefits:read', 'benefits:write'])
const write = merchant('benefits:write')
const enter = portal(['customer_portal:read', 'customer_portal:write'])
const change = portal('customer_portal:write')
const byId = z.object({ id: uuid() })
const byGrant = z.object({ grant_id: uuid() })
const granted = flagInText().optional().describe('True: granted now. False: revoked or never granted.')
const BenefitGrantPage = page('BenefitGrantPage', BenefitGrant)

export const listBenefitGrants = operation({
  id: 'benefit-grants:list',
  method: 'GET',
  path: '/v1/benefit-grants/',
  summary: 'List benefit grants',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    customer_id: filter(uuid()),
    external_customer_id: filter(z.string().max(256)),
    member_id: filter(uuid()),
    benefit_id: filter(uuid()),
    subscription_id: filter(uuid()),
    order_id: filter(uuid()),
    is_granted: granted,
    ...pageQuery,
    sorting: sorting('BenefitGrantSortProperty', ['created_at', 'granted_at', 'revoked_at'], ['-created_at']),
  }),
  returns: BenefitGrantPage,
  fails: [],
})

export const getBenefitGrant = operation({
  id: 'benefit-grants:get',
  method: 'GET',
  path: '/v1/benefit-grants/{grant_id}',
  summary: 'Get a benefit grant',
  access: read,
  costs: 'none',
  params: byGrant,
  returns: BenefitGrant,
  fails: [ResourceNotFound],
})

export const createBenefitGrant = operation({
  id: 'benefit-grants:create',
  method: 'POST',
  path: '/v1/benefit-grants/',
  summary: 'Grant a benefit by hand',
  description: 'Grants the benefit without a purchase, until it is revoked. An existing manual grant is returned unchanged.',
  access: write,
  costs: 'jobs',
  body: BenefitGrantCreate,
  returns: BenefitGrant,
  status: 201,
  fails: [NotPermitted],
})

export const revokeBenefitGrant = operation({
  id: 'benefit-grants:revoke',
  method: 'DELETE',
  path: '/v1/benefit-grants/{grant_id}',
  summary: 'Revoke a benefit grant',
  description: 'The holder loses the benefit; other holders keep it. Idempotent: revoking again changes nothing.',
  access: write,
  costs: 'jobs',
  params: byGrant,
  returns: BenefitGrant,
  fails: [NotPermitted, ResourceNotFound],
})

export const listGrantsOfBenefit = operation({
  id: 'benefits:grants',
  method: 'GET',
  path: '/v1/benefits/{id}/grants',
  summary: 'List the grants of a benefit',
  description: 'Newest first.',
  access: read,
  costs: 'none',
  params: byId,
  query: z.object({ is_granted: granted, customer_id: filter(uuid()), member_id: filter(uuid()), ...pageQuery }),
  returns: BenefitGrantPage,
  fails: [ResourceNotFound],
})

export const listPortalBenefitGrants = operation({
  id: 'customer_portal:benefit-grants:list',
  method: 'GET',
  path: '/v1/customer-portal/benefit-grants/',
  summary: 'List the benefits',
  description: 'Without revoked benefits and benefits that the seller hides. A plain member sees only their own.',
  access: enter,
  costs: 'none',
  query: z.object({
    query: z.string().max(256).optional().describe('Part of the description of the benefit.'),
    type: filter(BenefitType),
    benefit_id: filter(uuid()),
    checkout_id: filter(uuid()),
    order_id: filter(uuid()),
    subscription_id: filter(uuid()),
    member_id: filter(uuid()),
    ...pageQuery,
    sorting: sorting('CustomerBenefitGrantSortProperty', ['product_benefit', 'granted_at', 'type', 'organization'], ['product_benefit', '-granted_at']),
  }),
  returns: page('CustomerBenefitGrantPage', CustomerBenefitGrant),
  fails: [],
})

export const getPortalBenefitGrant = operation({
  id: 'customer_portal:benefit-grants:get',
  method: 'GET',
  path: '/v1/customer-portal/benefit-grants/{id}',
  summary: 'Get a benefit',
  access: enter,
  costs: 'none',
  params: byId,
  returns: CustomerBenefitGrant,
  fails: [ResourceNotFound],
})

export const updatePortalBenefitGrant = operation({
  id: 'customer_portal:benefit-grants:update',
  method: 'PATCH',
  path: '/v1/customer-portal/benefit-grants/{id}',
  summary: 'Choose the account for a benefit',
  description: 'The benefit is granted again, to the given account.',
  access: change,
  costs: 'jobs',
  params: byId,
  body: CustomerBenefitGrantUpdate,
  returns: CustomerBenefitGrant,
  fails: [NotPermitted, ResourceNotFound],
})

export const benefitGrantCreated = webhook('benefit_grant.created', BenefitGrantWebhook, 'A benefit is granted.')
export const benefitGrantUpdated = webhook('benefit_grant.updated', BenefitGrantWebhook, 'A grant changes, because its benefit or its account changed.')
export const benefitGrantCycled = webhook('benefit_grant.cycled', BenefitGrantWebhook, 'A new period is paid, and the benefit continues.')
export const benefitGrantRevoked = webhook('benefit_grant.revoked', BenefitGrantWebhook, 'A benefit is revoked.')
