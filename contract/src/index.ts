import type { Operation, Webhook } from './kit/index.ts'
import * as disputes from './billing/disputes.ts'
import * as documents from './billing/documents.ts'
import * as ledger from './billing/ledger.ts'
import * as methods from './billing/methods.ts'
import * as orders from './billing/orders.ts'
import * as portalOrders from './billing/portal-orders.ts'
import * as paymentAccounts from './billing/payment-accounts.ts'
import * as payments from './billing/payments.ts'
import * as portalSubscriptions from './billing/portal-subscriptions.ts'
import * as previews from './billing/previews.ts'
import * as refunds from './billing/refunds.ts'
import * as seats from './billing/seats.ts'
import * as sellers from './billing/sellers.ts'
import * as subscriptions from './billing/subscriptions.ts'
import * as taxes from './billing/taxes.ts'
import * as wallets from './billing/wallets.ts'
import * as benefits from './catalog/benefits.ts'
import * as customFields from './catalog/custom-fields.ts'
import * as discounts from './catalog/discounts.ts'
import * as files from './catalog/files.ts'
import * as meters from './catalog/meters.ts'
import * as products from './catalog/products.ts'
import * as storefront from './catalog/storefront.ts'
import * as checkoutLinks from './checkout/checkout-links.ts'
import * as checkouts from './checkout/checkouts.ts'
import * as checkoutDrafts from './checkout/drafts.ts'
import * as checkoutRenewals from './checkout/renewals.ts'
import * as checkoutReturns from './checkout/returns.ts'
import * as checkoutWebhooks from './checkout/webhooks.ts'
import * as customerSessions from './customers/customer-sessions.ts'
import * as customers from './customers/customers.ts'
import * as members from './customers/members.ts'
import * as portal from './customers/portal.ts'
import * as testClocks from './customers/test-clocks.ts'
import * as downloadables from './entitlements/downloadables.ts'
import * as grants from './entitlements/grants.ts'
import * as licenseKeys from './entitlements/license-keys.ts'
import * as state from './entitlements/state.ts'
import * as leaks from './identity/leaks.ts'
import * as oauth from './identity/oauth.ts'
import * as oauthGrants from './identity/oauth-grants.ts'
import * as sessions from './identity/sessions.ts'
import * as tokens from './identity/tokens.ts'
import * as memberships from './identity/memberships.ts'
import * as dashboards from './insights/dashboards.ts'
import * as explanation from './insights/explanation.ts'
import * as live from './insights/live.ts'
import * as margins from './insights/margins.ts'
import * as metrics from './insights/metrics.ts'
import * as search from './insights/search.ts'
import * as timeline from './insights/timeline.ts'
import * as memberMigration from './migration/member-migration.ts'
import * as auditLog from './organizations/audit-log.ts'
import * as organizations from './organizations/organizations.ts'
import * as corrections from './usage/corrections.ts'
import * as customerMeters from './usage/customer-meters.ts'
import * as dryRuns from './usage/dry-runs.ts'
import * as reservations from './usage/reservations.ts'
import * as eventTypes from './usage/event-types.ts'
import * as usageEvents from './usage/events.ts'
import * as portalUsage from './usage/portal-usage.ts'
import * as quantities from './usage/quantities.ts'
import * as thresholds from './usage/thresholds.ts'
import * as webhookHealth from './webhooks/health.ts'
import * as webhookEndpoints from './webhooks/webhooks.ts'

export * from './billing/disputes.ts'
export * from './billing/documents.ts'
export * from './billing/ledger.ts'
export * from './billing/methods.ts'
export * from './billing/orders.ts'
export * from './billing/portal-orders.ts'
export * from './billing/payment-accounts.ts'
export * from './billing/payments.ts'
export * from './billing/portal-subscriptions.ts'
export * from './billing/previews.ts'
export * from './billing/refunds.ts'
export * from './billing/seats.ts'
export * from './billing/sellers.ts'
export * from './billing/subscriptions.ts'
export * from './billing/taxes.ts'
export * from './billing/wallets.ts'
export * from './catalog/benefits.ts'
export * from './catalog/custom-fields.ts'
export * from './catalog/discounts.ts'
export * from './catalog/files.ts'
export * from './catalog/metadata.ts'
export * from './catalog/meters.ts'
export * from './catalog/products.ts'
export * from './catalog/storefront.ts'
export * from './checkout/checkout-links.ts'
export * from './checkout/checkouts.ts'
export * from './checkout/drafts.ts'
export * from './checkout/renewals.ts'
export * from './checkout/returns.ts'
export * from './checkout/saved-methods.ts'
export * from './checkout/webhooks.ts'
export * from './customers/addresses.ts'
export * from './customers/customer-sessions.ts'
export * from './customers/customers.ts'
export * from './customers/members.ts'
export * from './customers/portal.ts'
export * from './customers/test-clocks.ts'
export * from './entitlements/downloadables.ts'
export * from './entitlements/grants.ts'
export * from './entitlements/license-keys.ts'
export * from './entitlements/state.ts'
export * from './identity/leaks.ts'
export * from './identity/oauth.ts'
export * from './identity/oauth-grants.ts'
export * from './identity/sessions.ts'
export * from './identity/tokens.ts'
export * from './identity/memberships.ts'
export * from './insights/dashboards.ts'
export * from './insights/metric-slugs.ts'
export * from './insights/margins.ts'
export * from './insights/metrics.ts'
export * from './migration/member-migration.ts'
export * from './organizations/audit-log.ts'
export * from './organizations/organizations.ts'
export * from './organizations/permissions.ts'
export * from './usage/corrections.ts'
export * from './usage/customer-meters.ts'
export * from './usage/dry-runs.ts'
export * from './usage/reservations.ts'
export * from './usage/event-metadata.ts'
export * from './usage/event-types.ts'
export * from './usage/events.ts'
export * from './usage/portal-usage.ts'
export * from './usage/quantities.ts'
export * from './usage/system-events.ts'
export * from './usage/thresholds.ts'
export * from './webhooks/health.ts'
export * from './webhooks/webhooks.ts'
export * from './insights/explanation.ts'
export * from './insights/live.ts'
export * from './insights/search.ts'
export * from './insights/timeline.ts'
export * from './kit/index.ts'
export * from './scopes.ts'
export * from './versions.ts'
export * from './countries.ts'
export * from './zip-codes.ts'
export * from './currencies.ts'

const exported = [
  organizations,
  auditLog,
  memberships,
  tokens,
  sessions,
  oauth,
  oauthGrants,
  leaks,
  products,
  meters,
  discounts,
  benefits,
  files,
  customFields,
  storefront,
  customers,
  members,
  customerSessions,
  portal,
  testClocks,
  usageEvents,
  corrections,
  quantities,
  thresholds,
  portalUsage,
  customerMeters,
  dryRuns,
  reservations,
  eventTypes,
  subscriptions,
  portalSubscriptions,
  previews,
  seats,
  sellers,
  orders,
  portalOrders,
  ledger,
  documents,
  payments,
  paymentAccounts,
  refunds,
  disputes,
  methods,
  taxes,
  wallets,
  checkouts,
  checkoutLinks,
  checkoutDrafts,
  checkoutRenewals,
  checkoutReturns,
  checkoutWebhooks,
  grants,
  licenseKeys,
  downloadables,
  state,
  webhookEndpoints,
  webhookHealth,
  metrics,
  margins,
  dashboards,
  memberMigration,
  timeline,
  explanation,
  search,
  live,
].flatMap((room) => Object.values(room) as unknown[])

const has = (value: unknown, ...keys: string[]) => typeof value === 'object' && value !== null && keys.every((key) => key in value)

/** All declared operations: every operation that an imported contract file exports. */
export const operations: readonly Operation[] = exported.filter((value): value is Operation => has(value, 'id', 'method', 'path', 'access'))

/** All declared webhook kinds. */
export const webhooks: readonly Webhook[] = exported.filter((value): value is Webhook => has(value, 'kind', 'data', 'when'))

const refuseTwins = (what: string, names: readonly string[]) => {
  const twin = names.find((name, at) => names.indexOf(name) !== at)
  if (twin) throw new Error(`${what} ${twin} is declared twice`)
}
refuseTwins(
  'operation',
  operations.map((operation) => operation.id),
)
refuseTwins(
  'route',
  operations.map((operation) => `${operation.method} ${operation.path.replace(/\/$/, '').replace(/\{[^{}]+\}/g, '{}')}`),
)
refuseTwins(
  'webhook',
  webhooks.map((webhook) => webhook.kind),
)
const unlisted = webhooks.find(({ kind }) => !(webhookEndpoints.webhookKinds as readonly string[]).includes(kind))
if (unlisted) throw new Error(`webhook ${unlisted.kind} is not among the kinds that can be subscribed to`)
