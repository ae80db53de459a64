import { organizations } from './policies/organizations.ts'
import { identity } from './policies/identity.ts'
import { catalog } from './policies/catalog.ts'
import { entitlements } from './policies/entitlements.ts'
import { customers } from './policies/customers.ts'
import { billing } from './policies/billing.ts'
import { webhooks } from './policies/webhooks.ts'
import { usage } from './policies/usage.ts'
import { checkout } from './policies/checkout.ts'
import { insights } from './policies/insights.ts'
import { migration } from './policies/migration.ts'
import type { Policy } from './policies/shared.ts'

export type { Target, Asked, Credential, PortalRole, Verdicts, Policy } from './policies/shared.ts'

export const policy: Record<string, Policy> = {
  ...organizations,
  ...identity,
  ...catalog,
  ...entitlements,
  ...customers,
  ...usage,
  ...billing,
  ...webhooks,
  ...checkout,
  ...migration,
  ...insights,
}
