import { z } from 'zod'
import { named, resource, stamps, uuid } from '../kit/index.ts'
import { Metadata } from './metadata.ts'

export const BenefitType = named(
  'BenefitType',
  z.enum(['custom', 'discord', 'github_repository', 'downloadables', 'license_keys', 'meter_credit', 'feature_flag', 'slack_shared_channel']),
)

export const BenefitVisibility = named('BenefitVisibility', z.enum(['draft', 'private', 'public']))

/** What a benefit of one kind looks like: the common part, and properties of its own. */
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

/** What a product gives to those who buy it. */
export const Benefit = z.discriminatedUnion('type', [
  benefit('BenefitCustom', 'custom', resource('BenefitCustomProperties', { note: z.string().nullable() })),
  benefit(
    'BenefitDiscord',
    'discord',
    resource('BenefitDiscordProperties', { guild_id: z.string(), role_id: z.string(), kick_member: z.boolean(), guild_token: z.string() }),
  ),
  benefit(
    'BenefitGitHubRepository',
    'github_repository',
    resource('BenefitGitHubRepositoryProperties', {
      repository_owner: z.string(),
      repository_name: z.string(),
      permission: z.enum(['pull', 'triage', 'push', 'maintain', 'admin']),
    }),
  ),
  benefit(
    'BenefitDownloadables',
    'downloadables',
    resource('BenefitDownloadablesProperties', { archived: z.record(z.string(), z.boolean()), files: z.array(uuid()) }),
  ),
  benefit(
    'BenefitLicenseKeys',
    'license_keys',
    resource('BenefitLicenseKeysProperties', {
      prefix: z.string().nullable(),
      expires: resource('BenefitLicenseKeyExpiration', { ttl: z.int(), timeframe: z.enum(['year', 'month', 'day']) }).nullable(),
      activations: resource('BenefitLicenseKeyActivations', { limit: z.int(), enable_customer_admin: z.boolean() }).nullable(),
      limit_usage: z.int().nullable(),
    }),
  ),
  benefit('BenefitMeterCredit', 'meter_credit', resource('BenefitMeterCreditProperties', { units: z.int(), rollover: z.boolean(), meter_id: uuid() })),
  benefit('BenefitFeatureFlag', 'feature_flag', resource('BenefitFeatureFlagProperties', {})),
  benefit(
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
  ),
])
export type Benefit = z.output<typeof Benefit>
