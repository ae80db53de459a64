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
  openAccess,
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

/** A license key. Its holder enters it in an application, and the application validates it here. */
export const LicenseKeyRead = resource('LicenseKeyRead', {
  ...stamps,
  id: uuid(),
  organization_id: uuid(),
  customer_id: uuid().describe('The customer who pays.'),
  customer: resource('LicenseKeyCustomer', { ...CustomerTeam.shape, type: CustomerType }),
  member_id: uuid().nullable().describe('The member who has the key.'),
  benefit_id: uuid(),
  key: z.string(),
  display_key: z.string().describe('The last characters of the key.'),
  status: LicenseKeyStatus.describe('`revoked`: together with its grant. `disabled`: by the seller, independent of the grant.'),
  limit_activations: z.int().nullable().describe('Maximum number of activations at a time; null if the key cannot be activated.'),
  usage: z.int(),
  limit_usage: z.int().nullable().describe('Null for no limit.'),
  validations: z.int().describe('The number of successful validations.'),
  last_validated_at: timestamp().nullable(),
  expires_at: timestamp().nullable(),
})
export type LicenseKeyRead = z.output<typeof LicenseKeyRead>

/** One activation of a license key: a device or an installation. */
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
  activation: LicenseKeyActivationBase.nullable().describe('The activation in the request; null if there was none.'),
})

const largest = 2_147_483_647
const limit = () => z.int().min(1).max(largest)

export const LicenseKeyUpdate = resource('LicenseKeyUpdate', {
  status: LicenseKeyStatus.nullish().describe('Revoking also revokes the benefit; granting also grants it again.'),
  usage: z
    .int()
    .min(-largest - 1)
    .max(largest)
    .optional(),
  limit_activations: limit().nullish().describe('For this key only; null if it cannot be activated.'),
  limit_usage: limit().nullish().describe('For this key only; null for no limit.'),
  expires_at: timestamp().nullish().describe('For this key only; null if it never expires.'),
})
export type LicenseKeyUpdate = z.output<typeof LicenseKeyUpdate>

const presented = { key: z.string().min(1).max(255), organization_id: uuid().describe('The organization that sold the key.') }

export const LicenseKeyValidate = resource('LicenseKeyValidate', {
  ...presented,
  activation_id: uuid().nullish().describe('Valid only if this is an activation of the key.'),
  benefit_id: uuid().nullish().describe('Valid only if the key belongs to this benefit.'),
  customer_id: uuid().nullish().describe('Valid only if the key belongs to this customer.'),
  increment_usage: z.int().min(0).max(largest).nullish().describe('Added to the usage if the key is valid.'),
  conditions: metadataInput().optional().describe('Valid only if they equal those of the activation.'),
})
export type LicenseKeyValidate = z.output<typeof LicenseKeyValidate>

export const LicenseKeyActivate = resource('LicenseKeyActivate', {
  ...presented,
  label: text(1, 256).describe('A name for the activated device or installation that its owner recognizes.'),
  conditions: metadataInput().optional().describe('Values that every validation of this activation must repeat, such as a fingerprint of the device.'),
  meta: metadataInput().optional().describe('Your own data about the activation.'),
})
export type LicenseKeyActivate = z.output<typeof LicenseKeyActivate>

export const LicenseKeyDeactivate = resource('LicenseKeyDeactivate', { ...presented, activation_id: uuid() })

/** The claims of a signed offline licence: the JSON payload of the token. */
export const LicenceClaims = resource('LicenceClaims', {
  iss: z.string().describe('The address of this deployment.'),
  aud: uuid().describe('The organization that sold the license key.'),
  sub: uuid().describe('The license key.'),
  jti: uuid(),
  iat: z.int().describe('When it was signed, in seconds since 1970.'),
  exp: z.int().describe('When the licence expires, in seconds since 1970.'),
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
    .describe('The product that was bought; null if the benefit was granted by hand.'),
})
export type LicenceClaims = z.output<typeof LicenceClaims>

/** The `typ` header of a licence token. It prevents other signed tokens from being accepted as licences. */
export const licenceType = 'licence+jwt'

export const OfflineLicenceCreate = resource('OfflineLicenceCreate', {
  activation_id: uuid().nullish().describe('The activation of the licence. Required if the key limits activations.'),
})

export const OfflineLicence = resource('OfflineLicence', {
  token: z
    .string()
    .meta({ contentMediaType: 'application/jwt' })
    .describe(
      'A JSON Web Signature in compact form (header `alg` EdDSA over Ed25519, `typ` licence+jwt, and `kid`). Claims: `iss`, `aud` the organization, `sub` the license key, `jti`, `iat`, `exp`, `customer_id`, `license_key`, `activation`, `benefit`, `product`.',
    ),
  expires_at: timestamp().describe('When the licence expires; the same as the claim `exp`.'),
})

/** The public signing keys. Each `kid` matches the `kid` header of the licences that the key signed. */
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

export const RotateNotPermitted = failure('RotateNotPermitted', 400, 'This key is revoked and cannot be replaced. Grant its benefit again first.')

const read = merchant(['license_keys:read', 'license_keys:write'])
const write = merchant('license_keys:write')
const enter = portal(['customer_portal:read', 'customer_portal:write'])
const change = portal('customer_portal:write')
const anybody = openAccess({ anyOrigin: true })
const byId = z.object({ id: uuid() })
const LicenseKeyPage = page('LicenseKeyPage', LicenseKeyRead)

const validating =
  'Answers 404 for every invalid key: unknown, revoked, disabled or expired; of another benefit or customer; without this activation; with other conditions. Usage beyond the limit is rejected with 400 and not counted.'
const activating = 'Rejected if the key cannot be activated, has reached its activation limit, or is revoked, disabled or expired.'
const rotating = 'Creates a new key; the old one becomes invalid at once. Limits, usage and activations stay.'

export const listLicenseKeys = operation({
  id: 'license_keys:list',
  method: 'GET',
  path: '/v1/license-keys/',
  summary: 'List license keys',
  access: read,
  costs: 'none',
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
  costs: 'none',
  params: byId,
  returns: LicenseKeyWithActivations,
  fails: [ResourceNotFound],
})

export const updateLicenseKey = operation({
  id: 'license_keys:update',
  method: 'PATCH',
  path: '/v1/license-keys/{id}',
  summary: 'Update a license key',
  description: 'Absent fields stay unchanged. Values that are set for this key stay when its benefit changes.',
  access: write,
  costs: 'jobs',
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
  costs: 'none',
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
  costs: 'jobs',
  params: byId,
  returns: LicenseKeyRead,
  fails: [NotPermitted, ResourceNotFound, RotateNotPermitted],
  reveals: true,
})

export const signLicenseKey = operation({
  id: 'license_keys:offline',
  method: 'POST',
  path: '/v1/license-keys/{id}/offline',
  summary: 'Sign a licence for offline use',
  description:
    'An application verifies the licence offline, with the keys at /v1/licence-signing-keys. If the key limits activations, the licence is for one of them. Revoking the key does not affect signed licences: they are valid until they expire.',
  access: write,
  costs: 'none',
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
  description: 'A JSON Web Key Set. A key stays listed while a licence that it signed is valid.',
  access: anybody,
  costs: 'none',
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
  costs: 'none',
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
  costs: 'none',
  body: LicenseKeyActivate,
  returns: LicenseKeyActivationRead,
  fails: [NotPermitted, ResourceNotFound],
  reveals: true,
})

export const deactivateLicenseKey = operation({
  id: 'license_keys:deactivate',
  method: 'POST',
  path: '/v1/license-keys/deactivate',
  summary: 'Deactivate a license key',
  access: write,
  costs: 'none',
  body: LicenseKeyDeactivate,
  fails: [ResourceNotFound],
})

export const listPortalLicenseKeys = operation({
  id: 'customer_portal:license_keys:list',
  method: 'GET',
  path: '/v1/customer-portal/license-keys/',
  summary: 'List the license keys',
  description: 'Newest first. A plain member sees only their own.',
  access: enter,
  costs: 'none',
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
  costs: 'none',
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
  costs: 'jobs',
  params: byId,
  returns: LicenseKeyRead,
  fails: [NotPermitted, ResourceNotFound, RotateNotPermitted],
  reveals: true,
})

// These three operations need no credential besides the license key. They share one rate limit per IP address, which prevents guessing keys.
export const validatePortalLicenseKey = operation({
  id: 'customer_portal:license_keys:validate',
  method: 'POST',
  path: '/v1/customer-portal/license-keys/validate',
  summary: 'Validate a license key',
  description: validating,
  access: anybody,
  costs: 'none',
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
  costs: 'none',
  budget: 'license_keys',
  body: LicenseKeyActivate,
  returns: LicenseKeyActivationRead,
  fails: [NotPermitted, ResourceNotFound],
})

export const deactivatePortalLicenseKey = operation({
  id: 'customer_portal:license_keys:deactivate',
  method: 'POST',
  path: '/v1/customer-portal/license-keys/deactivate',
  summary: 'Deactivate a license key',
  access: anybody,
  costs: 'none',
  budget: 'license_keys',
  body: LicenseKeyDeactivate,
  fails: [ResourceNotFound],
})
