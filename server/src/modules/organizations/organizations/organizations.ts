import {
  DisputeAutoAcceptNotEnabled,
  InvalidRequest,
  organizationUpdated,
  ResourceNotFound,
  SSOEnforcementRequiresConnection,
  type CustomerOrganization,
  type CustomerOrganizationBrand,
  type Organization,
  type OrganizationCreate,
  type OrganizationStatus,
  type OrganizationUpdate,
} from '@bursar/contract'
import { z } from 'zod'
import { organizationIds, within, type MemberPhase, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import type { Environment } from '../../../kernel/secrets.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import { isUniqueViolation, type Db, type Tx } from '../../../platform/postgres/postgres.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { brandOf } from '../brand.ts'
import { permit } from '../permissions.ts'
import {
  changeOrganization,
  findLivingOrganization,
  insertOrganization,
  lockOrganization,
  type OrganizationRow,
  type OrganizationTable,
} from './organizations.sql.ts'

type Capabilities = Organization['capabilities']
const all: Capabilities = { checkout_payments: true, subscription_renewals: true, payouts: true, refunds: true, api_access: true, dashboard_access: true }
const none: Capabilities = {
  checkout_payments: false,
  subscription_renewals: false,
  payouts: false,
  refunds: false,
  api_access: false,
  dashboard_access: false,
}
const looking = { api_access: true, dashboard_access: true }

/** Capabilities of an organization in each status. */
export const capabilities: Record<OrganizationStatus, Capabilities> = {
  created: { ...none, ...looking },
  review: all,
  snoozed: all,
  active: all,
  denied: { ...none, ...looking },
  offboarding: { ...all, payouts: false },
  offboarded: { ...none, ...looking, payouts: true },
  blocked: none,
}

/** Presents the organization in the API's format. */
export const presentOrganization = (row: OrganizationRow): Organization => ({
  ...row,
  proration_behavior: row.subscription_settings.proration_behavior,
  allow_customer_updates: row.subscription_settings.allow_customer_updates,
  feature_settings: { ...row.feature_settings, member_model_enabled: row.member_phase === 'phase2' },
  embed_hosts_enforced: row.embed_hosts.length > 0,
  account_id: null,
  payout_account_id: null,
  capabilities: capabilities[row.status],
})

/** Presents the look and the links of the organization to its customers. */
export const presentBrand = (row: OrganizationRow): z.output<typeof CustomerOrganizationBrand> => {
  const { name: _name, accent, ...brand } = brandOf(row)
  return { ...brand, accent_color: accent }
}

/** Presents the organization to its customers. */
export const presentSeller = (row: OrganizationRow): z.output<typeof CustomerOrganization> => {
  const organization = presentOrganization(row)
  return { ...organization, organization_features: organization.feature_settings!, brand: presentBrand(row) }
}

/** Finds the organization of a seller for a public request. Returns undefined if it does not exist, is deleted or has no API access. */
export const findSeller = async (db: Db, by: { readonly id: string } | { readonly slug: string }): Promise<OrganizationRow | undefined> => {
  const organization = await findLivingOrganization(db, by)
  return organization && capabilities[organization.status].api_access ? organization : undefined
}

const defaults = {
  avatar_url: null,
  email: null,
  website: null,
  socials: [],
  details: null,
  legal_entity: null,
  logo: null,
  sender_address: null,
  country: null,
  sso_enforced: false,
  embed_hosts: [],
  subscription_settings: {
    allow_multiple_subscriptions: false,
    proration_behavior: 'prorate',
    benefit_revocation_grace_period: 0,
    prevent_trial_abuse: false,
    allow_customer_updates: true,
  },
  order_settings: { invoice_number_at: 'creation' },
  notification_settings: { new_order: true, new_subscription: true },
  customer_email_settings: {
    order_confirmation: true,
    payment_method_expiration_reminder: true,
    subscription_cancellation: true,
    subscription_confirmation: true,
    subscription_cycled: true,
    subscription_cycled_after_trial: true,
    subscription_past_due: true,
    subscription_paused: true,
    subscription_resumed: true,
    subscription_renewal_reminder: true,
    subscription_revoked: true,
    subscription_trial_conversion_reminder: true,
    subscription_uncanceled: true,
    subscription_updated: true,
    usage_threshold: true,
  },
  customer_portal_settings: {
    usage: { show: true },
    subscription: { update_seats: true, update_plan: true, pause: false },
    customer: { allow_email_change: false },
  },
  brand_settings: { accent_color: null, terms_url: null, privacy_url: null },
  dispute_settings: { auto_accept_below_amount: null },
  feature_settings: {
    issue_funding_enabled: false,
    seat_based_pricing_enabled: true,
    unit_based_pricing_enabled: false,
    wallets_enabled: false,
    checkout_localization_enabled: false,
    overview_metrics: null,
    reset_proration_behavior_enabled: false,
    off_session_charges_enabled: false,
    saved_payment_methods_enabled: false,
    meter_cycling_enabled: false,
    slack_benefit_enabled: false,
    preview_access_enabled: false,
    disputes_enabled: false,
    sso_enabled: false,
    dispute_auto_accept_enabled: false,
    compass_enabled: false,
    merchant_migration_enabled: false,
  },
} as const satisfies Partial<OrganizationTable>

type Create = z.output<typeof OrganizationCreate>

/** Creates an organization with the member model. In the sandbox, the request can ask for an organization without the member model, to test the migration. */
export const createOrganization = async (tx: Tx, body: Create, environment: Environment): Promise<OrganizationRow> => {
  if (body.member_model === 'legacy' && environment !== 'sandbox')
    throw new InvalidRequest({
      loc: ['body', 'member_model'],
      msg: 'The legacy member model exists in the sandbox only. Leave member_model out, or give members.',
      type: 'value_error',
      input: body.member_model,
    })
  return make(tx, body, environment, body.member_model === 'legacy' ? 'before' : 'phase2')
}

/** Creates an organization without the member model. */
export const createLegacyOrganization = (tx: Tx, body: Create, environment: Environment): Promise<OrganizationRow> => make(tx, body, environment, 'before')

/** Inserts an organization. The slug is never reused. A unique index enforces this for concurrent requests. */
const make = async (tx: Tx, body: Create, environment: Environment, member_phase: MemberPhase): Promise<OrganizationRow> => {
  const now = tx.clock.wall()
  const { feature_settings, brand_settings, member_model: _, ...given } = filled(body)
  const row: OrganizationTable = {
    ...structuredClone(defaults as unknown as OrganizationTable),
    ...given,
    name: body.name,
    slug: body.slug,
    default_presentment_currency: body.default_presentment_currency,
    default_tax_behavior: body.default_tax_behavior,
    id: newId(tx.clock.wall()),
    created_at: now,
    modified_at: null,
    deleted_at: null,
    // The sandbox has no review, so a new organization is active at once.
    status: environment === 'sandbox' ? 'active' : 'created',
    status_changed_at: now,
    details_submitted_at: body.details ? now : null,
    onboarding_resubmission_requested_at: null,
    member_phase,
  }
  row.brand_settings = { ...row.brand_settings, ...present(brand_settings ?? {}) }
  // Off-session charges are safe in the sandbox, because no real money is involved.
  if (environment === 'sandbox') row.feature_settings.off_session_charges_enabled = true
  if (feature_settings) row.feature_settings = switchFeatures(row.feature_settings, feature_settings)
  try {
    const made = await insertOrganization(tx, row)
    if (made.avatar_url !== null) await enqueue(tx, 'organizations.copy_logo', { organization_id: made.id })
    return made
  } catch (error) {
    if (!isUniqueViolation(error, 'organizations_slug_key')) throw error
    throw new InvalidRequest({
      loc: ['body', 'slug'],
      msg: 'An organization with this slug already exists. Choose another one.',
      type: 'value_error',
      input: body.slug,
    })
  }
}

/** Updates the given fields of an organization and emits `organization.updated`. Requires the permission to manage the organization. */
export const updateOrganization = async (tx: Tx, scope: TenantScope, id: string, body: z.output<typeof OrganizationUpdate>): Promise<OrganizationRow> => {
  const organization = await lockOrganization(tx, scope, id)
  if (!organization) throw new ResourceNotFound()
  permit(scope, id, 'organization:manage')
  const { feature_settings, dispute_settings, customer_email_settings, brand_settings, ...given } = filled(body)
  const changes: Partial<OrganizationTable> = { ...given, modified_at: tx.clock.wall() }
  // Clients of the 2026-04 contract leave out the settings that only Bursar has.
  if (customer_email_settings) changes.customer_email_settings = { ...organization.customer_email_settings, ...customer_email_settings }
  if (brand_settings) changes.brand_settings = { ...organization.brand_settings, ...present(brand_settings) }
  if (feature_settings) changes.feature_settings = switchFeatures(organization.feature_settings, feature_settings)
  if (dispute_settings?.auto_accept_below_amount !== undefined) {
    if (dispute_settings.auto_accept_below_amount !== null && !organization.feature_settings.dispute_auto_accept_enabled)
      throw new DisputeAutoAcceptNotEnabled()
    changes.dispute_settings = { auto_accept_below_amount: dispute_settings.auto_accept_below_amount }
  }
  if (body.sso_enforced) throw new SSOEnforcementRequiresConnection()
  if (body.details) changes.details_submitted_at = organization.details_submitted_at ?? tx.clock.wall()
  const changed = await changeOrganization(tx, organization, changes)
  // Sending the same URL again copies the logo again, because the picture behind it may have changed.
  if (typeof changes.avatar_url === 'string') await enqueue(tx, 'organizations.copy_logo', { organization_id: id })
  await emit(inWallTime(tx), organizationUpdated, { organization_id: id, resource_id: id }, presentOrganization(changed))
  return changed
}

/** Changes the member phase. From this commit on, the new phase decides how the organization's customers are shown. */
export const changePhase = async (tx: Tx, scope: TenantScope, id: string, member_phase: MemberPhase): Promise<void> => {
  const organization = await lockOrganization(tx, scope, id)
  if (!organization) throw new ResourceNotFound()
  const changed = await changeOrganization(tx, organization, { member_phase, modified_at: tx.clock.wall() })
  if ((organization.member_phase === 'phase2') !== (member_phase === 'phase2'))
    await emit(inWallTime(tx), organizationUpdated, { organization_id: id, resource_id: id }, presentOrganization(changed))
}

/** Clears the organization's avatar if it has this URL. Called when the file at the URL is deleted. */
export const dropAvatar = async (tx: Tx, scope: TenantScope, id: string, avatar_url: string): Promise<void> => {
  const organization = await lockOrganization(tx, scope, id)
  if (organization?.avatar_url !== avatar_url) return
  const changed = await changeOrganization(tx, organization, { avatar_url: null, modified_at: tx.clock.wall() })
  await emit(inWallTime(tx), organizationUpdated, { organization_id: id, resource_id: id }, presentOrganization(changed))
}

/**
 * Returns the organization of a new record. This is the token's organization, or the one named in the body. A request
 * with an organization header may omit the name in the body.
 */
export const chooseOrganization = (scope: TenantScope, given: string | undefined): string => {
  const ids = [...scope.organizations.keys()]
  const machine = ids.find((id) => scope.organizations.get(id) === 'machine')
  const problem = (type: string, msg: string) =>
    new InvalidRequest({ loc: ['body', 'organization_id'], msg, type, ...(given === undefined ? {} : { input: given }) })
  if (machine !== undefined) {
    if (given !== undefined) throw problem('organization_token', 'Leave organization_id out: an organization token belongs to one organization.')
    return machine
  }
  if (given === undefined && scope.confined && ids[0] !== undefined) return ids[0]
  if (given === undefined) throw problem('missing', 'Give the id of the organization.')
  if (!scope.organizations.has(given)) throw problem('value_error', 'You do not belong to an organization with this id.')
  return given
}

/** Returns the fields to change. Drops absent fields. Also drops null for fields that cannot be empty, which stay unchanged. */
const filled = <T extends Record<string, unknown>>(body: T) => {
  const clearable = new Set(['avatar_url', 'email', 'website', 'country', 'details', 'legal_entity'])
  return Object.fromEntries(Object.entries(body).filter(([key, value]) => value !== undefined && (value !== null || clearable.has(key)))) as {
    [K in keyof T]?: NonNullable<T[K]>
  }
}

/** Drops absent fields, so that they do not overwrite stored ones. */
const present = <T extends object>(given: T) =>
  Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as { [K in keyof T]?: Exclude<T[K], undefined> }

/** Sets whether an organization may charge customers off-session. Only the operator of the deployment decides this. */
export const allowOffSession = async (tx: Tx, { id, member_phase }: OrganizationRow, allowed: boolean): Promise<void> => {
  const organization = (await lockOrganization(tx, within(id, 'machine', member_phase), id))!
  const feature_settings = { ...organization.feature_settings, off_session_charges_enabled: allowed }
  const changed = await changeOrganization(tx, organization, { feature_settings, modified_at: tx.clock.wall() })
  await emit(inWallTime(tx), organizationUpdated, { organization_id: id, resource_id: id }, presentOrganization(changed))
}

/** Returns a sender address: one plain address, in ASCII and without a name. Undefined for any other text. The database checks it again. */
export const readSender = (text: string): string | undefined => z.email().max(254).safeParse(text).data

/** Sets the sender address of an organization's mails. Null means the address of the deployment. Only the operator decides this. */
export const allowSender = async (tx: Tx, { id, member_phase }: OrganizationRow, sender_address: string | null): Promise<void> => {
  const organization = (await lockOrganization(tx, within(id, 'machine', member_phase), id))!
  await changeOrganization(tx, organization, { sender_address })
}

type Features = OrganizationTable['feature_settings']

/** Applies feature settings. Seat-based pricing cannot be switched off, because products and subscriptions may already use it. */
const switchFeatures = (current: Features, wanted: NonNullable<z.output<typeof OrganizationUpdate>['feature_settings']>): Features => {
  const problem = (name: string, msg: string) =>
    new InvalidRequest({ loc: ['body', 'feature_settings', name], msg, type: 'value_error', input: wanted[name as keyof typeof wanted] })
  if (wanted.seat_based_pricing_enabled === false && current.seat_based_pricing_enabled)
    throw problem('seat_based_pricing_enabled', 'Seat-based pricing cannot be disabled once it is enabled.')
  if (wanted.member_model_enabled !== undefined) throw problem('member_model_enabled', 'The member model changes only by migration. See /v1/member-migration/.')
  const { member_model_enabled: _, ...rest } = wanted
  return { ...current, ...present(rest) }
}

/** Returns the single organization of a request. A caller with several organizations must name one in `organization_id`. */
export const chooseOne = (scope: TenantScope, wanted: readonly string[]): string => {
  const ids = organizationIds(scope, wanted)
  if (ids.length === 1) return ids[0]!
  throw new InvalidRequest({
    loc: ['query', 'organization_id'],
    msg: ids.length === 0 ? 'You do not belong to an organization with this id.' : 'This operation is for one organization at a time. Give organization_id.',
    type: ids.length === 0 ? 'value_error' : 'missing',
    ...(wanted.length === 0 ? {} : { input: wanted }),
  })
}
