import { z } from 'zod'
import { openAccess, operation, resource, ResourceNotFound, stamps, uuid } from '../kit/index.ts'
import { OrganizationCustomerPortalSettings, SubscriptionProrationBehavior } from '../organizations/organizations.ts'
import { BenefitType } from './benefits.ts'
import { Product } from './products.ts'

export const BenefitPublic = resource('BenefitPublic', {
  ...stamps,
  id: uuid(),
  type: BenefitType,
  description: z.string(),
  selectable: z.boolean(),
  deletable: z.boolean(),
  is_deleted: z.boolean(),
  organization_id: uuid(),
})

const { metadata: _metadata, attached_custom_fields: _fields, benefits: _benefits, ...shown } = Product.shape

/** A product as its buyers see it. */
export const CustomerProduct = resource('CustomerProduct', { ...shown, benefits: z.array(BenefitPublic) })

/** A seller as its customers see it. */
export const CustomerOrganization = resource('CustomerOrganization', {
  ...stamps,
  id: uuid(),
  name: z.string(),
  slug: z.string(),
  avatar_url: z.string().nullable(),
  proration_behavior: SubscriptionProrationBehavior,
  allow_customer_updates: z.boolean(),
  customer_portal_settings: OrganizationCustomerPortalSettings,
  organization_features: resource('CustomerOrganizationFeatureSettings', {
    member_model_enabled: z.boolean(),
    checkout_localization_enabled: z.boolean(),
  }),
})

export const getPortalOrganization = operation({
  id: 'customer_portal:organizations:get',
  method: 'GET',
  path: '/v1/customer-portal/organizations/{slug}',
  summary: 'Get a seller',
  description: 'The public view of a seller, with the hundred newest products that are public and on sale.',
  access: openAccess({ anyOrigin: true }),
  costs: 'none',
  params: z.object({ slug: z.string().min(1).max(64) }),
  returns: resource('CustomerOrganizationData', { organization: CustomerOrganization, products: z.array(CustomerProduct) }),
  fails: [ResourceNotFound],
})
