import { z } from 'zod'
import { Metadata, metadataInput } from '../catalog/metadata.ts'
import { CustomerTeam, CustomerType } from '../customers/customers.ts'
import {
  BadRequest,
  failure,
  filter,
  merchant,
  named,
  NotPermitted,
  open,
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
} from '../kit/index.ts'

export const LicenseKeyStatus = named('LicenseKeyStatus', z.enum(['granted', 'revoked', 'disabled']))
export type LicenseKeyStatus = z.output<typeof LicenseKeyStatus>

/** A key that a holder types into an application, and that the application asks about. */
export const LicenseKeyRead = resource('LicenseKeyRead', {
  ...stamps,
  id: uuid(),
  organization_id: uuid(),
  customer_id: uuid().describe('Who pays.'),
  customer: resource('LicenseKeyCustomer', { ...CustomerTeam.shape, type: CustomerType }),
  member_id: uuid().nullable().describe('Whose it is.'),
  benefit_id: uuid(),
  key: z.string(),
  display_key: z.string().describe('The end of the key.'),
  status: LicenseKeyStatus.describe('`revoked` with its grant; `disabled` by the seller, whatever happens to the grant.'),
  limit_activations: z.int().nullable().describe('How many activations there can be at a time; null where it is not to be activated at all.'),
  usage: z.int(),
  limit_usage: z.int().nullable().describe('Null for no limit.'),
  validations: z.int().describe('How often it was found valid.'),
  last_validated_at: timestamp().nullable(),
  expires_at: timestamp().nullable(),
})
export type LicenseKeyRead = z.output<typeof LicenseKeyRead>

/** One place where a key is in use: a device, an installation. */
export const LicenseKeyActivationBase = resource('LicenseKeyActivationBase', {
  ...stamps,
  id: uuid(),
  license_key_id: uuid(),
  label: z.string(),
  meta: Metadata,
})
export const LicenseKeyActivationRead = resource('LicenseKeyActivationRead', { ...LicenseKeyActivationBase.shape, license_key: LicenseKeyRead })
export const LicenseKeyWithActivations = resource('LicenseKeyWithActivations', {
  ...LicenseKeyRead.shape,
  activations: z.array(LicenseKeyActivationBase),
})
export const ValidatedLicenseKey = resource('ValidatedLicenseKey', {
  ...LicenseKeyRead.shape,
  activation: LicenseKeyActivationBase.nullable().describe('The one that was asked about; null where none was.'),
})

const largest = 2_147_483_647
const limit = () => z.int().min(1).max(largest)

export const LicenseKeyUpdate = resource('LicenseKeyUpdate', {
  status: LicenseKeyStatus.nullish().describe('Revoking takes the benefit with it, granting gives it back.'),
  usage: z
    .int()
    .min(-largest - 1)
    .max(largest)
    .optional(),
  limit_activations: limit().nullish().describe('For this key alone; null where it is not to be activated at all.'),
  limit_usage: limit().nullish().describe('For this key alone; null for no limit.'),
  expires_at: timestamp().nullish().describe('For this key alone; null for never.'),
})
export type LicenseKeyUpdate = z.output<typeof LicenseKeyUpdate>

const presented = { key: z.string().min(1).max(255), organization_id: uuid().describe('Whose key it is.') }

export const LicenseKeyValidate = resource('LicenseKeyValidate', {
  ...presented,
  activation_id: uuid().nullish().describe('Valid only if this is one of its activations.'),
  benefit_id: uuid().nullish().describe('Valid only if it belongs to this benefit.'),
  customer_id: uuid().nullish().describe('Valid only if it belongs to this customer.'),
  increment_usage: z.int().min(0).max(largest).nullish().describe('Added to the usage, if it is valid.'),
  conditions: metadataInput().optional().describe('Valid only if they equal those of the activation.'),
})
export type LicenseKeyValidate = z.output<typeof LicenseKeyValidate>

export const LicenseKeyActivate = resource('LicenseKeyActivate', {
  ...presented,
  label: text(1, 256).describe('What is activated, in words that its owner knows it by.'),
  conditions: metadataInput().optional().describe('What has to be said again when this activation is validated, such as a fingerprint of the device.'),
  meta: metadataInput().optional().describe('Your own facts about the activation.'),
})
export type LicenseKeyActivate = z.output<typeof LicenseKeyActivate>

export const LicenseKeyDeactivate = resource('LicenseKeyDeactivate', { ...presented, activation_id: uuid() })

/** What a signed licence says: the payload of the token, as JSON. */
export const LicenceClaims = resource('LicenceClaims', {
  iss: z.string().describe('The address of this deployment.'),
  aud: uuid().describe('The organization that sells.'),
  sub: uuid().describe('The license key.'),
  jti: uuid(),
  iat: z.int().describe('When it was signed, in seconds since 1970.'),
  exp: z.int().describe('Until when to trust it, in seconds since 1970.'),
  customer_id: uuid(),
  license_key: resource('LicenseKeyClaim', {
    display_key: z.string(),
    limit_activations: z.int().nullable(),
    limit_usage: z.int().nullable(),
    expires_at: timestamp().nullable(),
  }),
  activation: resource('LicenceActivationClaim', { id: uuid(), label: z.string(), meta: Metadata }).nullable(),
  benefit: resource('LicenceBenefitClaim', { id: uuid(), description: z.string(), metadata: Metadata }),
  product: resource('LicenceProductClaim', { id: uuid(), name: z.string(), metadata: Metadata })
    .nullable()
    .describe('What was bought; null where the benefit was granted by hand.'),
})
export type LicenceClaims = z.output<typeof LicenceClaims>

/** The `typ` in the header of a licence: no other token that we sign can be taken for one. */
export const licenceType = 'licence+jwt'

export const OfflineLicenceCreate = resource('OfflineLicenceCreate', {
  activation_id: uuid().nullish().describe('The activation that it is for; needed where the key limits activations.'),
})

export const OfflineLicence = resource('OfflineLicence', {
  token: z
    .string()
    .meta({ contentMediaType: 'application/jwt' })
    .describe(
      'A JSON Web Signature in compact form (header `alg` EdDSA over Ed25519, `typ` licence+jwt, and `kid`). Claims: `iss`, `aud` the organization, `sub` the license key, `jti`, `iat`, `exp`, `customer_id`, `license_key`, `activation`, `benefit`, `product`.',
    ),
  expires_at: timestamp().describe('Until when to trust it; the same as the claim `exp`.'),
})

/** Public halves, each under the name that the header of a licence gives. */
export const LicenceSigningKeySet = resource('LicenceSigningKeySet', {
  keys: z.array(
    resource('LicenceSigningKey', {
      kty: z.literal('OKP'),
      crv: z.literal('Ed25519'),
      alg: z.literal('EdDSA'),
      use: z.literal('sig'),
      kid: z.string(),
      x: z.string().describe('The 32 bytes of the key, base64url.'),
    }),
  ),
})

export const RotateNotPermitted = failure('RotateNotPermitted', 400, 'This key is revoked, so there is nothing to replace. Grant its benefit again first.')

const read = merchant(['license_keys:read', 'license_keys:write'])
const write = merchant('license_keys:write')
const enter = portal(['customer_portal:read', 'customer_portal:write'])
const change = portal('customer_portal:write')
const anybody = open({ anyOrigin: true })
const byId = z.object({ id: uuid() })
const LicenseKeyPage = page('LicenseKeyPage', LicenseKeyRead)

const validating =
  'Not found is whatever is not valid: unknown, revoked, disabled or expired, of another benefit or customer, not activated so, under other conditions. Usage beyond the limit is refused with 400, and not counted.'
const activating = 'Refused where the key is not to be activated, has as many activations as it may, or is revoked, disabled or expired.'
const rotating = 'The key is another one from now on, and the one before is void at once. Limits, usage and activations stay.'

export const listLicenseKeys = operation({
  id: 'license_keys:list',
  method: 'GET',
  path: '/v1/license-keys/',
  summary: 'List license keys',
  access: read,
  query: z.object({
    organization_id: filter(uuid()),
    benefit_id: filter(uuid()),
    customer_id: filter(uuid()),
    member_id: filter(uuid()),
    status: filter(LicenseKeyStatus),
    ...pageQuery,
    sorting: sorting('LicenseKeySortProperty', ['created_at', 'usage', 'validations'], ['-created_at']),
  }),
  returns: LicenseKeyPage,
  fails: [],
})

export const getLicenseKey = operation({
  id: 'license_keys:get',
  method: 'GET',
  path: '/v1/license-keys/{id}',
  summary: 'Get a license key',
  access: read,
  params: byId,
  returns: LicenseKeyWithActivations,
  fails: [ResourceNotFound],
})

export const updateLicenseKey = operation({
  id: 'license_keys:update',
  method: 'PATCH',
  path: '/v1/license-keys/{id}',
  summary: 'Update a license key',
  description: 'What is absent stays as it is. What is set for this key alone stays when its benefit changes.',
  access: write,
  params: byId,
  body: LicenseKeyUpdate,
  returns: LicenseKeyRead,
  fails: [NotPermitted, ResourceNotFound],
  reveals: true,
})

export const getLicenseKeyActivation = operation({
  id: 'license_keys:get_activation',
  method: 'GET',
  path: '/v1/license-keys/{id}/activations/{activation_id}',
  summary: 'Get an activation',
  access: read,
  params: z.object({ id: uuid(), activation_id: uuid() }),
  returns: LicenseKeyActivationRead,
  fails: [ResourceNotFound],
})

export const rotateLicenseKey = operation({
  id: 'license_keys:rotate',
  method: 'POST',
  path: '/v1/license-keys/{id}/rotate',
  summary: 'Replace a license key',
  description: rotating,
  access: write,
  params: byId,
  returns: LicenseKeyRead,
  fails: [NotPermitted, ResourceNotFound, RotateNotPermitted],
  reveals: true,
})

export const signLicenseKey = operation({
  id: 'license_keys:offline',
  method: 'POST',
  path: '/v1/license-keys/{id}/offline',
  summary: 'Sign a licence for use offline',
  description:
    'An application checks it by itself, with the keys at /v1/licence-signing-keys. A key that limits activations is signed for one of them. Revoking the key does not reach what was signed before: it counts until it expires.',
  access: write,
  params: byId,
  body: OfflineLicenceCreate.prefault({}),
  returns: OfflineLicence,
  fails: [NotPermitted, ResourceNotFound],
  reveals: true,
})

export const listLicenceSigningKeys = operation({
  id: 'license_keys:signing_keys',
  method: 'GET',
  path: '/v1/licence-signing-keys',
  summary: 'List the keys that licences are signed with',
  description: 'A JSON Web Key Set. A key stays listed for as long as anything signed with it counts.',
  access: anybody,
  returns: LicenceSigningKeySet,
  fails: [],
})

export const validateLicenseKey = operation({
  id: 'license_keys:validate',
  method: 'POST',
  path: '/v1/license-keys/validate',
  summary: 'Validate a license key',
  description: validating,
  access: write,
  body: LicenseKeyValidate,
  returns: ValidatedLicenseKey,
  fails: [BadRequest, ResourceNotFound],
  reveals: true,
})

export const activateLicenseKey = operation({
  id: 'license_keys:activate',
  method: 'POST',
  path: '/v1/license-keys/activate',
  summary: 'Activate a license key',
  description: activating,
  access: write,
  body: LicenseKeyActivate,
  returns: LicenseKeyActivationRead,
  fails: [NotPermitted, ResourceNotFound],
  reveals: true,
})

export const deactivateLicenseKey = operation({
  id: 'license_keys:deactivate',
  method: 'POST',
  path: '/v1/license-keys/deactivate',
  summary: 'Give an activation back',
  access: write,
  body: LicenseKeyDeactivate,
  fails: [ResourceNotFound],
})

export const listPortalLicenseKeys = operation({
  id: 'customer_portal:license_keys:list',
  method: 'GET',
  path: '/v1/customer-portal/license-keys/',
  summary: 'List the license keys',
  description: 'The newest first. A plain member sees their own.',
  access: enter,
  query: z.object({ benefit_id: filter(uuid()), ...pageQuery }),
  returns: LicenseKeyPage,
  fails: [],
})

export const getPortalLicenseKey = operation({
  id: 'customer_portal:license_keys:get',
  method: 'GET',
  path: '/v1/customer-portal/license-keys/{id}',
  summary: 'Get a license key',
  access: enter,
  params: byId,
  returns: LicenseKeyWithActivations,
  fails: [ResourceNotFound],
})

export const rotatePortalLicenseKey = operation({
  id: 'customer_portal:license_keys:rotate',
  method: 'POST',
  path: '/v1/customer-portal/license-keys/{id}/rotate',
  summary: 'Replace a license key',
  description: rotating,
  access: change,
  params: byId,
  returns: LicenseKeyRead,
  fails: [NotPermitted, ResourceNotFound, RotateNotPermitted],
  reveals: true,
})

// Whoever knows a key may use it: the three that ask for no more share one budget per address, because keys can be tried.
export const validatePortalLicenseKey = operation({
  id: 'customer_portal:license_keys:validate',
  method: 'POST',
  path: '/v1/customer-portal/license-keys/validate',
  summary: 'Validate a license key',
  description: validating,
  access: anybody,
  budget: 'license_keys',
  body: LicenseKeyValidate,
  returns: ValidatedLicenseKey,
  fails: [BadRequest, ResourceNotFound],
})

export const activatePortalLicenseKey = operation({
  id: 'customer_portal:license_keys:activate',
  method: 'POST',
  path: '/v1/customer-portal/license-keys/activate',
  summary: 'Activate a license key',
  description: activating,
  access: anybody,
  budget: 'license_keys',
  body: LicenseKeyActivate,
  returns: LicenseKeyActivationRead,
  fails: [NotPermitted, ResourceNotFound],
})

export const deactivatePortalLicenseKey = operation({
  id: 'customer_portal:license_keys:deactivate',
  method: 'POST',
  path: '/v1/customer-portal/license-keys/deactivate',
  summary: 'Give an activation back',
  access: anybody,
  budget: 'license_keys',
  body: LicenseKeyDeactivate,
  fails: [ResourceNotFound],
})
