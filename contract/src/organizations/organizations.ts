import { z } from 'zod'
import {
  email,
  failure,
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
  timestamp,
  url,
  uuid,
  webhook,
} from '../kit/index.ts'
import { Country, SellerCountry } from '../countries.ts'
import { PresentmentCurrency } from '../currencies.ts'

export const OrganizationStatus = named(
  'OrganizationStatus',
  z.enum(['created', 'review', 'snoozed', 'denied', 'active', 'blocked', 'offboarding', 'offboarded']),
)
export type OrganizationStatus = z.infer<typeof OrganizationStatus>

export const SubscriptionProrationBehavior = named('SubscriptionProrationBehavior', z.enum(['invoice', 'prorate', 'next_period', 'reset']))
export const TaxBehaviorOption = named('TaxBehaviorOption', z.enum(['location', 'inclusive', 'exclusive']))

export const OrganizationSocialLink = resource('OrganizationSocialLink', {
  platform: named(
    'OrganizationSocialPlatform',
    z.enum(['x', 'github', 'facebook', 'instagram', 'youtube', 'tiktok', 'linkedin', 'threads', 'discord', 'other']),
  ),
  url: url(),
})

const flag = (what: string) => z.boolean().describe(what)

export const OrganizationFeatureSettings = resource('OrganizationFeatureSettings', {
  issue_funding_enabled: flag('Always off: kept for older clients.'),
  seat_based_pricing_enabled: flag('Products may be priced by seat.'),
  unit_based_pricing_enabled: flag('Products may be priced by unit.'),
  wallets_enabled: flag('Customers may hold a balance.'),
  member_model_enabled: flag('Customers pay and members use: the second phase of the member migration.'),
  checkout_localization_enabled: flag('The checkout uses the language of the buyer.'),
  overview_metrics: z.array(z.string()).nullable().describe('The figures on the overview page, in order.'),
  reset_proration_behavior_enabled: flag('Plan changes may restart the billing period.'),
  off_session_charges_enabled: flag('Saved payment methods may be charged without the buyer present.'),
  saved_payment_methods_enabled: flag(
    'A checkout of a named customer offers the saved payment methods of the customer. The address of such a checkout is enough to charge them. Absent: they are not offered.',
  ).optional(),
  meter_cycling_enabled: flag('Meters restart with each billing period.'),
  slack_benefit_enabled: flag('Slack benefits may be defined.'),
  preview_access_enabled: flag('Features in preview are on.'),
  disputes_enabled: flag('Disputes are handled here.'),
  sso_enabled: flag('Single sign-on may be set up.'),
  dispute_auto_accept_enabled: flag('Small disputes may be accepted without review.'),
  compass_enabled: flag('Always off: kept for older clients.'),
  merchant_migration_enabled: flag('Imports from another billing system are open.'),
})

export const OrganizationSubscriptionSettings = resource('OrganizationSubscriptionSettings', {
  allow_multiple_subscriptions: flag('A customer may hold several subscriptions at once.'),
  proration_behavior: z.enum(['invoice', 'prorate', 'next_period']).describe('How a plan change within a period is charged.'),
  benefit_revocation_grace_period: z.int().min(0).max(365).describe('Days that benefits stay after a payment has failed.'),
  prevent_trial_abuse: flag('One trial per customer and product.'),
  allow_customer_updates: flag('Customers may change their plan in the portal.'),
})

export const OrganizationOrderSettings = resource('OrganizationOrderSettings', {
  invoice_number_at: named('InvoiceNumberAt', z.enum(['creation', 'payment'])).describe(
    '`creation`: an order has its invoice number from the start, and a voided order keeps it. `payment`: an order gets its number when it is paid, so that the numbers of paid orders have no gaps.',
  ),
})

export const OrganizationCustomerEmailSettings = resource('OrganizationCustomerEmailSettings', {
  order_confirmation: flag('After a purchase.'),
  payment_method_expiration_reminder: flag('Before a card expires.'),
  subscription_cancellation: flag('When a cancellation is scheduled.'),
  subscription_confirmation: flag('When a subscription or its trial starts.'),
  subscription_cycled: flag('At each renewal.'),
  subscription_cycled_after_trial: flag('At the first charge after a trial.'),
  subscription_past_due: flag('When a payment has failed.'),
  subscription_paused: flag('When a pause is scheduled.'),
  subscription_resumed: flag('When a paused subscription resumes.'),
  subscription_renewal_reminder: flag('Before a renewal.'),
  subscription_revoked: flag('When access ends.'),
  subscription_trial_conversion_reminder: flag('Before a trial turns into a paid period.'),
  subscription_uncanceled: flag('When a cancellation is withdrawn.'),
  subscription_updated: flag('When the plan or the number of seats changes.'),
  usage_threshold: flag('When usage reaches 80 or 100 percent of the credits, or of the cap of a price. Absent: mails are sent.').optional(),
})

export const OrganizationCustomerPortalSettings = resource('OrganizationCustomerPortalSettings', {
  usage: resource('CustomerPortalUsageSettings', { show: flag('Customers see their metered usage.') }),
  subscription: resource('CustomerPortalSubscriptionSettings', {
    update_seats: flag('Customers may change the number of seats.'),
    update_plan: flag('Customers may change their plan.'),
    pause: flag('Customers may pause.').optional(),
  }),
  customer: resource('CustomerPortalCustomerSettings', { allow_email_change: flag('Customers may change their e-mail address.').optional() }).optional(),
})

export const OrganizationNotificationSettings = resource('OrganizationNotificationSettings', {
  new_order: flag('Mail the people of the organization about each purchase. Renewals are not mailed.'),
  new_subscription: flag('Mail the people of the organization about each new subscription.'),
})

/** The colour as `#rrggbb`. */
const colour = () =>
  z
    .string()
    .trim()
    .toLowerCase()
    .regex(/^#[0-9a-f]{6}$/, 'Give the colour as # and six hexadecimal digits, such as #1f6feb.')

const brandDescriptions = {
  accent_color: 'The colour of buttons and links on checkout, portal and mails, as `#rrggbb`. Its contrast is corrected where a text would be unreadable.',
  terms_url: 'Linked on the checkout, in the portal and in mails.',
  privacy_url: 'Linked on the checkout, in the portal and in mails.',
}

export const OrganizationBrandSettings = resource('OrganizationBrandSettings', {
  accent_color: z.string().nullable().describe(brandDescriptions.accent_color),
  terms_url: z.string().nullable().describe(brandDescriptions.terms_url),
  privacy_url: z.string().nullable().describe(brandDescriptions.privacy_url),
})

const OrganizationBrandSettingsUpdate = resource('OrganizationBrandSettingsUpdate', {
  accent_color: colour().nullish().describe(brandDescriptions.accent_color),
  terms_url: url().nullish().describe(brandDescriptions.terms_url),
  privacy_url: url().nullish().describe(brandDescriptions.privacy_url),
})

export const OrganizationCapabilities = resource('OrganizationCapabilities', {
  checkout_payments: flag('Checkouts can be paid.'),
  subscription_renewals: flag('Subscriptions renew.'),
  payouts: flag('Money is paid out.'),
  refunds: flag('Orders can be refunded.'),
  api_access: flag('Tokens of this organization work.'),
  dashboard_access: flag('Its people can open the dashboard.'),
})

export const Organization = resource('Organization', {
  ...stamps,
  id: uuid(),
  name: z.string(),
  slug: z.string().describe('Unique, also after deletion.'),
  avatar_url: z.string().nullable(),
  proration_behavior: SubscriptionProrationBehavior,
  allow_customer_updates: z.boolean(),
  email: z.string().nullable().describe('The address for questions of customers.'),
  website: z.string().nullable(),
  socials: z.array(OrganizationSocialLink),
  status: OrganizationStatus,
  details_submitted_at: timestamp().nullable(),
  onboarding_resubmission_requested_at: timestamp().nullable(),
  sso_enforced: z.boolean(),
  default_presentment_currency: z.string(),
  default_tax_behavior: TaxBehaviorOption,
  feature_settings: OrganizationFeatureSettings.nullable(),
  subscription_settings: OrganizationSubscriptionSettings,
  order_settings: OrganizationOrderSettings,
  notification_settings: OrganizationNotificationSettings,
  customer_email_settings: OrganizationCustomerEmailSettings,
  customer_portal_settings: OrganizationCustomerPortalSettings,
  brand_settings: OrganizationBrandSettings,
  dispute_settings: resource('OrganizationDisputeSettings', { auto_accept_below_amount: z.int().nullable() }),
  embed_hosts: z.array(z.string()).describe('Hosts that may embed the checkout.'),
  embed_hosts_enforced: z.boolean(),
  country: Country.nullable(),
  account_id: uuid().nullable(),
  payout_account_id: uuid().nullable(),
  capabilities: OrganizationCapabilities,
})
export type Organization = z.output<typeof Organization>

const OrganizationDetails = resource('OrganizationDetails', {
  about: prose(5000).nullish(),
  product_description: prose(5000).nullish(),
  selling_categories: z.array(text(1, 100)).max(50).optional(),
  pricing_models: z.array(text(1, 100)).max(50).optional(),
  intended_use: prose(5000).nullish(),
  customer_acquisition: z.array(text(1, 100)).max(50).optional(),
  future_annual_revenue: z.int().min(0).nullish(),
  switching: z.boolean().default(false),
  switching_from: z.enum(['paddle', 'lemon_squeezy', 'gumroad', 'stripe', 'other']).nullish(),
  previous_annual_revenue: z.int().min(0).nullish(),
})

const OrganizationFeatureSettingsUpdate = resource('OrganizationFeatureSettingsUpdate', {
  seat_based_pricing_enabled: z.boolean().optional(),
  member_model_enabled: z.boolean().optional(),
  checkout_localization_enabled: z.boolean().optional(),
  saved_payment_methods_enabled: z.boolean().optional(),
  overview_metrics: z.array(text(1, 100)).max(100).nullish(),
})

const LegalEntity = z.discriminatedUnion('type', [
  resource('OrganizationIndividualLegalEntity', { type: z.literal('individual') }),
  resource('OrganizationCompanyLegalEntity', { type: z.literal('company'), registered_name: text(1, 256) }),
])

/** Slugs that no organization may use, because they are or may become the first segment of our own URLs. */
const reservedSlugs = new Set([
  'admin',
  'api',
  'assets',
  'auth',
  'bursar',
  'checkout',
  'claim',
  'dashboard',
  'docs',
  'login',
  'new',
  'oauth2',
  'portal',
  'receipts',
  'reference',
  'settings',
])

const slug = () =>
  z
    .string()
    .trim()
    .toLowerCase()
    .min(3)
    .max(64)
    .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, 'Use lower-case letters and digits, with single hyphens between them.')
    .refine((value) => !reservedSlugs.has(value), 'This slug is reserved. Choose another one.')

const profile = {
  // Hosts without a domain are allowed, because a self-hosted deployment may serve its files from an IP address.
  avatar_url: z
    .url({ protocol: /^https?$/ })
    .max(2083)
    .nullish(),
  email: email().nullish(),
  website: url().nullish(),
  socials: z.array(OrganizationSocialLink).max(20).nullish(),
  details: OrganizationDetails.nullish(),
  country: SellerCountry.nullish(),
  feature_settings: OrganizationFeatureSettingsUpdate.nullish(),
  subscription_settings: OrganizationSubscriptionSettings.nullish(),
  order_settings: OrganizationOrderSettings.nullish(),
  notification_settings: OrganizationNotificationSettings.nullish(),
  customer_email_settings: OrganizationCustomerEmailSettings.nullish(),
  customer_portal_settings: OrganizationCustomerPortalSettings.nullish(),
  brand_settings: OrganizationBrandSettingsUpdate.nullish().describe('Absent fields stay unchanged. Null clears a field.'),
}

export const OrganizationCreate = resource('OrganizationCreate', {
  name: text(3, 256),
  slug: slug(),
  legal_entity: LegalEntity.nullish(),
  ...profile,
  default_presentment_currency: PresentmentCurrency.default('usd'),
  default_tax_behavior: TaxBehaviorOption.default('location'),
  member_model: named('MemberModel', z.enum(['legacy', 'members']))
    .nullish()
    .describe('Defaults to `members`. `legacy` is for the sandbox only: every seat holder is a customer, as before members, to practise the migration.'),
})

export const OrganizationUpdate = resource('OrganizationUpdate', {
  name: text(3, 256).nullish(),
  ...profile,
  dispute_settings: resource('OrganizationDisputeSettingsUpdate', { auto_accept_below_amount: z.int().min(1).max(10_000).nullish() }).nullish(),
  embed_hosts: z
    .array(
      z
        .string()
        .trim()
        .toLowerCase()
        .regex(/^(\*\.)?([a-z0-9-]{1,63}\.)*[a-z0-9-]{1,63}(:\d{1,5})?$/, 'Give a host name such as shop.example.com, without scheme or path.'),
    )
    .max(50)
    .nullish(),
  default_presentment_currency: PresentmentCurrency.nullish(),
  default_tax_behavior: TaxBehaviorOption.nullish(),
  sso_enforced: z.boolean().nullish(),
})

export const CannotCreateOrganizationError = failure(
  'CannotCreateOrganizationError',
  403,
  'This credential cannot create organizations. Only the operator can, unless the operator opens creation to everyone.',
)
export const DisputeAutoAcceptNotEnabled = failure(
  'DisputeAutoAcceptNotEnabled',
  403,
  'Automatic acceptance of small disputes is not enabled for this organization.',
)
export const SSOEnforcementRequiresConnection = failure('SSOEnforcementRequiresConnection', 409, 'Set up a single sign-on connection before enforcing it.')

export const listOrganizations = operation({
  id: 'organizations:list',
  method: 'GET',
  path: '/v1/organizations/',
  summary: 'List organizations',
  description: 'The organizations that the credential has access to.',
  access: merchant(['organizations:read', 'organizations:write']),
  costs: 'none',
  query: z.object({
    slug: z.string().optional().describe('Only the organization with this slug.'),
    ...pageQuery,
    sorting: sorting('OrganizationSortProperty', ['created_at', 'slug', 'name', 'next_review_threshold', 'days_in_status'], ['created_at']),
  }),
  returns: page('OrganizationPage', Organization),
  fails: [],
})

export const createOrganization = operation({
  id: 'organizations:create',
  method: 'POST',
  path: '/v1/organizations/',
  summary: 'Create an organization',
  description: 'The caller becomes its owner.',
  access: merchant('organizations:write', ['oidc', 'pat']),
  costs: 'jobs',
  body: OrganizationCreate,
  returns: Organization,
  status: 201,
  fails: [CannotCreateOrganizationError],
})

const byId = z.object({ id: uuid() })

export const getOrganization = operation({
  id: 'organizations:get',
  method: 'GET',
  path: '/v1/organizations/{id}',
  summary: 'Get an organization',
  access: merchant(['organizations:read', 'organizations:write']),
  costs: 'none',
  params: byId,
  returns: Organization,
  fails: [ResourceNotFound],
})

export const updateOrganization = operation({
  id: 'organizations:update',
  method: 'PATCH',
  path: '/v1/organizations/{id}',
  summary: 'Update an organization',
  description: 'Absent fields stay unchanged. The slug cannot change.',
  access: merchant('organizations:write'),
  costs: 'jobs',
  params: byId,
  body: OrganizationUpdate,
  returns: Organization,
  fails: [NotPermitted, DisputeAutoAcceptNotEnabled, ResourceNotFound, SSOEnforcementRequiresConnection],
})

export const organizationUpdated = webhook('organization.updated', Organization, 'The profile or the settings of an organization change.')
