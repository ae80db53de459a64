import { z } from 'zod'
import {
  filter,
  merchant,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  prose,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  text,
  uuid,
  webhook,
} from '../kit/index.ts'
import { Metadata, metadataFilter, metadataInput } from './metadata.ts'

export const BenefitType = named(
  'BenefitType',
  z.enum(['custom', 'discord', 'github_repository', 'downloadables', 'license_keys', 'meter_credit', 'feature_flag', 'slack_shared_channel']),
)

export const BenefitVisibility = named('BenefitVisibility', z.enum(['draft', 'private', 'public']))

/** Schema of a benefit of one type: the common fields and the properties of that type. */
const benefit = <T extends string, P extends z.ZodType>(name: string, type: T, properties: P) =>
  resource(name, {
    ...stamps,
    id: uuid(),
    type: z.literal(type),
    description: z.string(),
    selectable: z.boolean(),
    deletable: z.boolean(),
    is_deleted: z.boolean(),
    organization_id: uuid(),
    metadata: Metadata,
    visibility: BenefitVisibility,
    visibility_configurable: z.boolean(),
    properties,
  })

export const GitHubPermission = z.enum(['pull', 'triage', 'push', 'maintain', 'admin'])

export const BenefitCustom = benefit('BenefitCustom', 'custom', resource('BenefitCustomProperties', { note: z.string().nullable() }))
export const BenefitDiscord = benefit(
  'BenefitDiscord',
  'discord',
  resource('BenefitDiscordProperties', { guild_id: z.string(), role_id: z.string(), kick_member: z.boolean(), guild_token: z.string() }),
)
export const BenefitGitHubRepository = benefit(
  'BenefitGitHubRepository',
  'github_repository',
  resource('BenefitGitHubRepositoryProperties', { repository_owner: z.string(), repository_name: z.string(), permission: GitHubPermission }),
)
export const BenefitDownloadables = benefit(
  'BenefitDownloadables',
  'downloadables',
  resource('BenefitDownloadablesProperties', { archived: z.record(z.string(), z.boolean()), files: z.array(uuid()) }),
)
export const BenefitLicenseKeys = benefit(
  'BenefitLicenseKeys',
  'license_keys',
  resource('BenefitLicenseKeysProperties', {
    prefix: z.string().nullable(),
    expires: resource('BenefitLicenseKeyExpirationProperties', { ttl: z.int(), timeframe: z.enum(['year', 'month', 'day']) }).nullable(),
    activations: resource('BenefitLicenseKeyActivationProperties', { limit: z.int(), enable_customer_admin: z.boolean() }).nullable(),
    limit_usage: z.int().nullable(),
  }),
)
export const BenefitMeterCredit = benefit(
  'BenefitMeterCredit',
  'meter_credit',
  resource('BenefitMeterCreditProperties', { units: z.int(), rollover: z.boolean(), meter_id: uuid() }),
)
export const BenefitFeatureFlag = benefit('BenefitFeatureFlag', 'feature_flag', resource('BenefitFeatureFlagProperties', {}))
export const BenefitSlackSharedChannel = benefit(
  'BenefitSlackSharedChannel',
  'slack_shared_channel',
  resource('BenefitSlackSharedChannelProperties', {
    slack_integration_id: uuid(),
    channel_name_template: z.string(),
    private: z.boolean(),
    welcome_message: z.string().nullable(),
    archive_on_revoke: z.boolean(),
    team_invitees: z.array(z.string()),
  }),
)

/** A benefit that a product grants to its buyers. */
export const Benefit = z.discriminatedUnion('type', [
  BenefitCustom,
  BenefitDiscord,
  BenefitGitHubRepository,
  BenefitDownloadables,
  BenefitLicenseKeys,
  BenefitMeterCredit,
  BenefitFeatureFlag,
  BenefitSlackSharedChannel,
])
export type Benefit = z.output<typeof Benefit>

const count = () => z.int().min(1).max(2_147_483_647)

/** The lifetime of a license key. The maximum keeps the expiry date within a few centuries. */
const expiry = resource('BenefitLicenseKeyExpirationCreateProperties', { ttl: z.int().min(1), timeframe: z.enum(['year', 'month', 'day']) }).refine(
  ({ ttl, timeframe }) => ttl <= { year: 457, month: 1200, day: 36_500 }[timeframe],
  'At most 457 years, 1200 months or 36500 days.',
)

const githubName = () => z.string().regex(/^[A-Za-z0-9._-]{1,100}$/, 'Use the name as GitHub writes it.')

/** The properties in the create request of each benefit type. */
const wanted = {
  custom: resource('BenefitCustomCreateProperties', { note: prose(10_000).nullish() }),
  discord: resource('BenefitDiscordCreateProperties', {
    guild_token: z.string().min(1).max(2000).describe('The token that you received when our bot was added to your server.'),
    role_id: z.string().regex(/^\d{1,25}$/, 'Expected the numeric id of a role.'),
    kick_member: z.boolean(),
  }),
  github_repository: resource('BenefitGitHubRepositoryCreateProperties', {
    repository_owner: githubName(),
    repository_name: githubName(),
    permission: GitHubPermission,
  }),
  downloadables: resource('BenefitDownloadablesCreateProperties', {
    archived: z.record(uuid(), z.boolean()).default({}),
    files: z.array(uuid()).min(1).max(100),
  }),
  license_keys: resource('BenefitLicenseKeysCreateProperties', {
    prefix: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,50}$/, 'Use letters, digits, hyphens and underscores.')
      .nullish(),
    expires: expiry.nullish(),
    activations: resource('BenefitLicenseKeyActivationCreateProperties', { limit: count(), enable_customer_admin: z.boolean() }).nullish(),
    limit_usage: count().nullish(),
  }),
  meter_credit: resource('BenefitMeterCreditCreateProperties', { units: count(), rollover: z.boolean(), meter_id: uuid() }),
  feature_flag: resource('BenefitFeatureFlagCreateProperties', {}),
  slack_shared_channel: resource('BenefitSlackSharedChannelCreateProperties', {
    slack_integration_id: uuid(),
    channel_name_template: text(1, 80),
    private: z.boolean().default(true),
    welcome_message: prose(4000).nullish(),
    archive_on_revoke: z.boolean().default(true),
    team_invitees: z.array(z.string().max(320)).max(100).default([]),
  }),
}
type Kind = keyof typeof wanted

const creating = <T extends Kind>(name: string, type: T) =>
  resource(name, {
    metadata: metadataInput().optional(),
    type: z.literal(type),
    description: text(3, 42),
    organization_id: uuid().nullish(),
    visibility: BenefitVisibility.nullish(),
    properties: wanted[type],
  })

const changing = <T extends Kind>(name: string, type: T) =>
  resource(name, {
    metadata: metadataInput().optional(),
    type: z.literal(type),
    description: text(3, 42).nullish(),
    visibility: BenefitVisibility.nullish(),
    properties: wanted[type].nullish(),
  })

export const BenefitCreate = z.discriminatedUnion('type', [
  creating('BenefitCustomCreate', 'custom'),
  creating('BenefitDiscordCreate', 'discord'),
  creating('BenefitGitHubRepositoryCreate', 'github_repository'),
  creating('BenefitDownloadablesCreate', 'downloadables'),
  creating('BenefitLicenseKeysCreate', 'license_keys'),
  creating('BenefitMeterCreditCreate', 'meter_credit'),
  creating('BenefitFeatureFlagCreate', 'feature_flag'),
  creating('BenefitSlackSharedChannelCreate', 'slack_shared_channel'),
])

export const BenefitUpdate = z.discriminatedUnion('type', [
  changing('BenefitCustomUpdate', 'custom'),
  changing('BenefitDiscordUpdate', 'discord'),
  changing('BenefitGitHubRepositoryUpdate', 'github_repository'),
  changing('BenefitDownloadablesUpdate', 'downloadables'),
  changing('BenefitLicenseKeysUpdate', 'license_keys'),
  changing('BenefitMeterCreditUpdate', 'meter_credit'),
  changing('BenefitFeatureFlagUpdate', 'feature_flag'),
  changing('BenefitSlackSharedChannelUpdate', 'slack_shared_channel'),
])

const read = merchant(['benefits:read', 'benefits:write'])
const write = merchant('benefits:write')
const byId = z.object({ id: uuid() })

export const listBenefits = operation({
  id: 'benefits:list',
  method: 'GET',
  path: '/v1/benefits/',
  summary: 'List benefits',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    type: filter(BenefitType),
    id: filter(uuid()),
    exclude_id: filter(uuid()),
    query: z.string().max(256).optional().describe('Part of the description.'),
    metadata: metadataFilter(),
    ...pageQuery,
    sorting: sorting('BenefitSortProperty', ['created_at', 'description', 'type', 'user_order'], ['-created_at']),
  }),
  returns: page('BenefitPage', Benefit),
  fails: [],
})

export const createBenefit = operation({
  id: 'benefits:create',
  method: 'POST',
  path: '/v1/benefits/',
  summary: 'Create a benefit',
  access: write,
  costs: 'none',
  body: BenefitCreate,
  returns: Benefit,
  status: 201,
  fails: [NotPermitted],
})

export const getBenefit = operation({
  id: 'benefits:get',
  method: 'GET',
  path: '/v1/benefits/{id}',
  summary: 'Get a benefit',
  access: read,
  costs: 'none',
  params: byId,
  returns: Benefit,
  fails: [NotPermitted, ResourceNotFound],
})

export const updateBenefit = operation({
  id: 'benefits:update',
  method: 'PATCH',
  path: '/v1/benefits/{id}',
  summary: 'Update a benefit',
  description: 'The type cannot change.',
  access: write,
  costs: 'jobs',
  params: byId,
  body: BenefitUpdate,
  returns: Benefit,
  fails: [NotPermitted, ResourceNotFound],
})

export const deleteBenefit = operation({
  id: 'benefits:delete',
  method: 'DELETE',
  path: '/v1/benefits/{id}',
  summary: 'Delete a benefit',
  description: 'The benefit is removed from every product.',
  access: write,
  costs: 'jobs',
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})

export const benefitCreated = webhook('benefit.created', Benefit, 'A benefit is created.')
export const benefitUpdated = webhook('benefit.updated', Benefit, 'A benefit changes or is deleted.')
