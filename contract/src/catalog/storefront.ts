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

/** The look and the links of a seller, for pages that customers see. */
export const CustomerOrganizationBrand = resource('CustomerOrganizationBrand', {
  logo: resource('CustomerOrganizationLogo', {
    path: z.string().describe('The path of the picture on the server of this API. Its content never changes.'),
    content_type: z.string(),
    width: z.number(),
    height: z.number(),
  })
    .nullable()
    .describe('A copy of the picture at `avatar_url`. Null until it was copied, and if it cannot be shown.'),
  accent_color: z.string().nullable().describe('The colour that the seller chose. Its contrast is not corrected.'),
  support_email: z.string().nullable().describe('The address for questions of customers.'),
  website: z.string().nullable(),
  terms_url: z.string().nullable(),
  privacy_url: z.string().nullable(),
})

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
  brand: CustomerOrganizationBrand,
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
