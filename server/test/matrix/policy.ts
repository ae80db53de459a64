import type { MemberRole, OrganizationRole, Scope } from '@bursar/contract'

/** The things a request can point at, all of one tenant: real ones, another tenant's, or ids that never existed. */
export interface Target {
  readonly organization_id: string
  readonly member_id: string
  readonly invitation_id: string
  readonly organization_token_id: string
  readonly personal_token_id: string
  readonly product_id: string
  /** What can be subscribed to for nothing. */
  readonly free_plan_id: string
  readonly meter_id: string
  readonly discount_id: string
  readonly benefit_id: string
  readonly custom_field_id: string
  readonly customer_id: string
  readonly customer_external_id: string
  /** A member of that customer. */
  readonly person_id: string
  readonly person_external_id: string
  readonly endpoint_id: string
  readonly event_id: string
  readonly replay_id: string
  /** An OAuth client of a person there. */
  readonly client_id: string
  readonly checkout_id: string
  readonly checkout_secret: string
  /** Of that customer, as are the payment and the subscription. */
  readonly order_id: string
  readonly payment_id: string
  readonly refund_id: string
  /** Of that payment: it is being looked into. */
  readonly dispute_id: string
  /** Something that this customer can pay with. */
  readonly payment_method_id: string
  readonly subscription_id: string
  readonly test_clock_id: string
  /** A subscription with seats, and one of them, to which somebody is invited. */
  readonly seated_id: string
  readonly seat_id: string
  /** A benefit that this customer has of its own. */
  readonly grant_id: string
  readonly file_id: string
  /** A license key of that customer's own, one of its activations, and the key itself. */
  readonly license_key_id: string
  readonly activation_id: string
  readonly license_key: string
  /** A link that leads to a checkout, and its secret. */
  readonly link_id: string
  readonly link_secret: string
  /** What that customer has with the seller. */
  readonly wallet_id: string
}

export interface Asked {
  readonly path: string
  readonly body?: unknown
  /** The body, where it goes as a form. */
  readonly form?: Record<string, string>
}

export type Credential = 'organization' | 'personal' | 'oauth' | 'session'
export type PortalRole = MemberRole | 'customer'

/** Where the protocol, or the operation itself, decides: the answer to nobody, to a token that is no token here, to a stranger's session, to the owner's. */
export interface Verdicts {
  readonly nobody: string
  readonly bearer: string
  readonly stranger: string
  readonly owner: string
  /** Tokens of OAuth, where they count for more than other tokens. */
  readonly oauth?: string
}

/**
 * Who may do what, written by hand from the specification and held against the running server: nothing here is
 * derived from the declarations that the server runs on, so the two cannot share a mistake.
 */
export interface Policy {
  /** `open`: anyone, and a credential changes nothing. `person`: a signed-in browser alone. `portal`: customer sessions. Otherwise the tokens that are accepted. */
  readonly who: 'open' | 'person' | 'portal' | Verdicts | readonly Credential[]
  /** Who may do it in the portal. */
  readonly portal?: readonly PortalRole[]
  /** To roles that may not, it is as absent as none. */
  readonly hidden?: boolean
  /** Takes sessions of members only. */
  readonly membersOnly?: boolean
  readonly scopes: readonly Scope[]
  /** Roles that may do it; everyone in the organization where none are listed. */
  readonly roles?: readonly OrganizationRole[]
  readonly ask: (target: Target) => Asked
  /** The answer to a caller who may: a status, and the name of the failure where even then there is one. */
  readonly granted: number | [number, string]
  /** The request points at something of a tenant. How a foreign or absent one is answered. */
  readonly foreign?: 'absent' | 'invalid'
  /** How an app is answered that was given some organizations, where even the right scope does not help it. */
  readonly confined?: string
  /** The outer part of the address, which can be one's own while the rest is somebody else's. */
  readonly nested?: keyof Target
  /** The body names the organization, which a token of an organization must leave out. */
  readonly implied?: boolean
  /** The thing belongs to a person rather than to an organization. */
  readonly personal?: boolean
}

const tokens: readonly Credential[] = ['organization', 'personal', 'oauth', 'session']
const readers: readonly Scope[] = ['organizations:read', 'organizations:write']
const writers: readonly Scope[] = ['organizations:write']
const managers: readonly OrganizationRole[] = ['owner', 'admin']

const crew: readonly OrganizationRole[] = ['owner', 'admin', 'member']

const customersRead: readonly Scope[] = ['customers:read', 'customers:write']
const keysRead: readonly Scope[] = ['license_keys:read', 'license_keys:write']
const benefitsRead: readonly Scope[] = ['benefits:read', 'benefits:write']
const hooksRead: readonly Scope[] = ['webhooks:read', 'webhooks:write']
const seatsRead: readonly Scope[] = ['customer_seats:read']
const membersRead: readonly Scope[] = ['members:read', 'members:write']
const everyone: readonly PortalRole[] = ['customer', 'owner', 'billing_manager', 'member']
const payers: readonly PortalRole[] = ['customer', 'owner', 'billing_manager']
const leaders: readonly PortalRole[] = ['owner', 'billing_manager']
const external = (t: Target) => `/v1/customers/external/${t.customer_external_id}`

let serial = 0
const meter = { name: 'Matrix', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } }

/** A step of the member migration, in an organization that is past the last of them. */
const migrating = (step: string, refusal: string): Policy => ({
  who: tokens,
  scopes: writers,
  roles: managers,
  ask: (t) => ({ path: `/v1/member-migration/${step}`, body: t.organization_id === '' ? {} : { organization_id: t.organization_id } }),
  granted: [409, refusal],
  foreign: 'invalid',
  implied: true,
})

export const policy: Record<string, Policy> = {
  'organizations:list': { who: tokens, scopes: readers, ask: () => ({ path: '/v1/organizations/?limit=100' }), granted: 200 },
  'organizations:create': {
    who: ['personal', 'oauth', 'session'],
    scopes: writers,
    ask: () => ({ path: '/v1/organizations/', body: { name: 'Matrix', slug: `matrix-${serial++}` } }),
    confined: '403 CannotCreateOrganizationError',
    granted: 201,
  },
  'organizations:get': { who: tokens, scopes: readers, ask: (t) => ({ path: `/v1/organizations/${t.organization_id}` }), granted: 200, foreign: 'absent' },
  'organizations:update': {
    who: tokens,
    scopes: writers,
    roles: managers,
    ask: (t) => ({ path: `/v1/organizations/${t.organization_id}`, body: { website: 'https://changed.example' } }),
    granted: 200,
    foreign: 'absent',
  },

  'organizations:list_members': {
    who: tokens,
    scopes: readers,
    roles: ['owner', 'admin', 'member'],
    ask: (t) => ({ path: `/v1/organizations/${t.organization_id}/members?limit=100` }),
    granted: 200,
    foreign: 'absent',
  },
  'organizations:update_member': {
    who: 'person',
    scopes: writers,
    roles: managers,
    ask: (t) => ({ path: `/v1/organizations/${t.organization_id}/members/${t.member_id}`, body: { role: 'finance' } }),
    granted: 200,
    foreign: 'absent',
    nested: 'organization_id',
  },
  'organizations:remove_member': {
    who: 'person',
    scopes: writers,
    roles: managers,
    ask: (t) => ({ path: `/v1/organizations/${t.organization_id}/members/${t.member_id}` }),
    granted: 204,
    foreign: 'absent',
    nested: 'organization_id',
  },
  'organizations:leave': {
    who: 'person',
    scopes: writers,
    ask: (t) => ({ path: `/v1/organizations/${t.organization_id}/members/leave` }),
    granted: 204,
    foreign: 'absent',
  },
  'organizations:invite_member': {
    who: 'person',
    scopes: writers,
    roles: managers,
    ask: (t) => ({ path: `/v1/organizations/${t.organization_id}/members/invite`, body: { email: `guest-${serial++}@people.test` } }),
    granted: 201,
    foreign: 'absent',
  },
  'organizations:list_invitations': {
    who: tokens,
    scopes: readers,
    roles: ['owner', 'admin', 'member'],
    ask: (t) => ({ path: `/v1/organizations/${t.organization_id}/invitations?limit=100` }),
    granted: 200,
    foreign: 'absent',
  },
  'organizations:revoke_invitation': {
    who: 'person',
    scopes: writers,
    roles: managers,
    ask: (t) => ({ path: `/v1/organizations/${t.organization_id}/invitations/${t.invitation_id}` }),
    granted: 204,
    foreign: 'absent',
    nested: 'organization_id',
  },
  'organizations:accept_invitation': {
    who: 'person',
    scopes: writers,
    ask: () => ({ path: '/v1/organization-invitations/accept', body: { token: 'bursar_test_inv_made_up' } }),
    granted: [410, 'InvitationInvalid'],
  },

  'organization_access_tokens:list': { who: 'person', scopes: [], ask: () => ({ path: '/v1/organization-access-tokens/?limit=100' }), granted: 200 },
  'organization_access_tokens:create': {
    who: 'person',
    scopes: [],
    roles: managers,
    ask: (t) => ({ path: '/v1/organization-access-tokens/', body: { organization_id: t.organization_id, comment: 'x', scopes: ['orders:read'] } }),
    granted: 201,
    foreign: 'invalid',
  },
  'organization_access_tokens:update': {
    who: 'person',
    scopes: [],
    roles: managers,
    ask: (t) => ({ path: `/v1/organization-access-tokens/${t.organization_token_id}`, body: { comment: 'changed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'organization_access_tokens:delete': {
    who: 'person',
    scopes: [],
    roles: managers,
    ask: (t) => ({ path: `/v1/organization-access-tokens/${t.organization_token_id}` }),
    granted: 204,
    foreign: 'absent',
  },

  'personal_access_tokens:list': { who: 'person', scopes: [], ask: () => ({ path: '/v1/personal_access_tokens/?limit=100' }), granted: 200 },
  'personal_access_tokens:create': {
    who: 'person',
    scopes: [],
    ask: () => ({ path: '/v1/personal_access_tokens/', body: { comment: 'x', scopes: ['orders:read'] } }),
    granted: 201,
  },
  'personal_access_tokens:update': {
    who: 'person',
    scopes: [],
    ask: (t) => ({ path: `/v1/personal_access_tokens/${t.personal_token_id}`, body: { comment: 'changed' } }),
    granted: 200,
    foreign: 'absent',
    personal: true,
  },
  'personal_access_tokens:delete': {
    who: 'person',
    scopes: [],
    ask: (t) => ({ path: `/v1/personal_access_tokens/${t.personal_token_id}` }),
    granted: 204,
    foreign: 'absent',
    personal: true,
  },

  'auth:request_code': { who: 'open', scopes: [], ask: () => ({ path: '/v1/auth/email-otp', body: { email: 'nobody@people.test' } }), granted: 202 },
  'auth:verify_code': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/auth/email-otp/verify', body: { email: 'stranger@people.test', code: '123456' } }),
    granted: [401, 'SignInRefused'],
  },
  'auth:sign_out': { who: 'person', scopes: [], ask: () => ({ path: '/v1/auth/session' }), granted: 204 },
  'auth:verify_second_factor': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/auth/second-factor', body: { code: '123456' } }),
    granted: [401, 'SignInRefused'],
  },
  'oauth2:clients:list': { who: 'person', scopes: [], ask: () => ({ path: '/v1/oauth2/?limit=100' }), granted: 200 },
  'oauth2:grants:list': { who: 'person', scopes: [], ask: () => ({ path: '/v1/oauth2/grants?limit=100' }), granted: 200 },
  'oauth2:grants:delete': {
    who: 'person',
    scopes: [],
    ask: (t) => ({ path: `/v1/oauth2/grants/${t.client_id}` }),
    granted: 204,
    foreign: 'absent',
    personal: true,
  },
  'oauth2:clients:oauth2:create_client': {
    who: { nobody: '201', bearer: '201', stranger: '201', owner: '201' },
    scopes: [],
    ask: () => ({ path: '/v1/oauth2/register', body: { client_name: 'Matrix', redirect_uris: ['https://app.example/callback'] } }),
    granted: 201,
  },
  'oauth2:clients:oauth2:get_client': {
    who: { nobody: '400 access_denied', bearer: '401 invalid_client', stranger: '401 invalid_client', owner: '200' },
    scopes: [],
    ask: (t) => ({ path: `/v1/oauth2/register/${t.client_id}` }),
    granted: 200,
  },
  'oauth2:clients:oauth2:update_client': {
    who: { nobody: '400 access_denied', bearer: '401 invalid_client', stranger: '401 invalid_client', owner: '200' },
    scopes: [],
    ask: (t) => ({
      path: `/v1/oauth2/register/${t.client_id}`,
      body: { client_id: t.client_id, client_name: 'Renamed', redirect_uris: ['https://app.example/callback'] },
    }),
    granted: 200,
  },
  'oauth2:clients:oauth2:delete_client': {
    who: { nobody: '400 access_denied', bearer: '401 invalid_client', stranger: '401 invalid_client', owner: '204' },
    scopes: [],
    ask: (t) => ({ path: `/v1/oauth2/register/${t.client_id}` }),
    granted: 204,
  },
  'oauth2:authorize': {
    who: { nobody: '401 login_required', bearer: '403 NotPermitted', stranger: '200', owner: '200' },
    scopes: [],
    ask: (t) => ({ path: `/v1/oauth2/authorize?response_type=code&scope=openid&client_id=${t.client_id}` }),
    granted: 200,
  },
  'oauth2:request_token': {
    who: { nobody: '400 invalid_request', bearer: '400 invalid_request', stranger: '400 invalid_request', owner: '400 invalid_request' },
    scopes: [],
    ask: () => ({ path: '/v1/oauth2/token', form: { grant_type: 'refresh_token', refresh_token: 'x' } }),
    granted: 200,
  },
  'oauth2:revoke_token': {
    who: { nobody: '400 invalid_request', bearer: '400 invalid_request', stranger: '400 invalid_request', owner: '400 invalid_request' },
    scopes: [],
    ask: () => ({ path: '/v1/oauth2/revoke', form: { token: 'x' } }),
    granted: 200,
  },
  'oauth2:introspect_token': {
    who: { nobody: '400 invalid_request', bearer: '400 invalid_request', stranger: '400 invalid_request', owner: '400 invalid_request' },
    scopes: [],
    ask: () => ({ path: '/v1/oauth2/introspect', form: { token: 'x' } }),
    granted: 200,
  },
  'oauth2:userinfo': {
    who: {
      nobody: '401 invalid_token',
      bearer: '401 invalid_token',
      stranger: '401 invalid_token',
      owner: '401 invalid_token',
      oauth: '403 insufficient_scope',
    },
    scopes: [],
    ask: () => ({ path: '/v1/oauth2/userinfo' }),
    granted: 200,
  },
  'users:me': { who: 'person', scopes: [], ask: () => ({ path: '/v1/users/me' }), granted: 200 },

  'integrations:report_leaked_tokens': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/integrations/github/secret-scanning', body: [{ token: 'x', type: 'y' }] }),
    granted: [400, 'PublicKeyNotFound'],
  },
  'integrations:token_patterns': { who: 'open', scopes: [], ask: () => ({ path: '/v1/integrations/token-patterns' }), granted: 200 },

  'products:list': { who: tokens, scopes: ['products:read', 'products:write'], ask: () => ({ path: '/v1/products/?limit=100' }), granted: 200 },
  'products:create': {
    who: tokens,
    scopes: ['products:write'],
    roles: crew,
    ask: (t) => ({
      path: '/v1/products/',
      body: {
        name: 'Matrix',
        prices: [{ amount_type: 'fixed', price_amount: 1000 }],
        ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }),
      },
    }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'products:get': {
    who: tokens,
    scopes: ['products:read', 'products:write'],
    ask: (t) => ({ path: `/v1/products/${t.product_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'products:update': {
    who: tokens,
    scopes: ['products:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/products/${t.product_id}`, body: { name: 'Changed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'products:delete': {
    who: tokens,
    scopes: ['products:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/products/${t.product_id}` }),
    granted: 204,
    foreign: 'absent',
  },

  'meters:list': { who: tokens, scopes: ['meters:read', 'meters:write'], ask: () => ({ path: '/v1/meters/?limit=100' }), granted: 200 },
  'meters:create': {
    who: tokens,
    scopes: ['meters:write'],
    roles: crew,
    ask: (t) => ({ path: '/v1/meters/', body: { ...meter, ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }) } }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'meters:get': {
    who: tokens,
    scopes: ['meters:read', 'meters:write'],
    ask: (t) => ({ path: `/v1/meters/${t.meter_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'meters:update': {
    who: tokens,
    scopes: ['meters:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/meters/${t.meter_id}`, body: { name: 'Renamed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'discounts:list': { who: tokens, scopes: ['discounts:read', 'discounts:write'], ask: () => ({ path: '/v1/discounts/?limit=100' }), granted: 200 },
  'discounts:create': {
    who: tokens,
    scopes: ['discounts:write'],
    roles: crew,
    ask: (t) => ({
      path: '/v1/discounts/',
      body: {
        name: 'Matrix',
        type: 'percentage',
        duration: 'once',
        basis_points: 100,
        ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }),
      },
    }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'discounts:get': {
    who: tokens,
    scopes: ['discounts:read', 'discounts:write'],
    ask: (t) => ({ path: `/v1/discounts/${t.discount_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'discounts:update': {
    who: tokens,
    scopes: ['discounts:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/discounts/${t.discount_id}`, body: { name: 'Renamed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'discounts:delete': {
    who: tokens,
    scopes: ['discounts:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/discounts/${t.discount_id}` }),
    granted: 204,
    foreign: 'absent',
  },
  'benefits:list': { who: tokens, scopes: ['benefits:read', 'benefits:write'], ask: () => ({ path: '/v1/benefits/?limit=100' }), granted: 200 },
  'benefits:files': {
    who: tokens,
    scopes: ['benefits:read', 'benefits:write'],
    ask: (t) => ({ path: `/v1/benefits/${t.benefit_id}/files` }),
    granted: 200,
    foreign: 'absent',
  },
  'files:list': { who: tokens, scopes: ['files:read', 'files:write'], ask: () => ({ path: '/v1/files/?limit=100' }), granted: 200 },
  'files:create': {
    who: tokens,
    scopes: ['files:write'],
    roles: crew,
    ask: (t) => ({
      path: '/v1/files/',
      body: {
        service: 'downloadable',
        name: 'matrix.txt',
        mime_type: 'text/plain',
        size: 3,
        upload: { parts: [{ number: 1, chunk_start: 0, chunk_end: 3 }] },
        ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }),
      },
    }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'files:uploaded': {
    who: tokens,
    scopes: ['files:write'],
    roles: crew,
    ask: (t) => ({
      path: `/v1/files/${t.file_id}/uploaded`,
      body: { id: 'upload', path: `downloadable/${t.file_id}`, parts: [{ number: 1, checksum_etag: 'x' }] },
    }),
    granted: 200,
    foreign: 'absent',
  },
  'files:update': {
    who: tokens,
    scopes: ['files:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/files/${t.file_id}`, body: { name: 'renamed.txt' } }),
    granted: 200,
    foreign: 'absent',
  },
  'files:delete': {
    who: tokens,
    scopes: ['files:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/files/${t.file_id}` }),
    granted: 204,
    foreign: 'absent',
  },
  'benefits:create': {
    who: tokens,
    scopes: ['benefits:write'],
    roles: crew,
    ask: (t) => ({
      path: '/v1/benefits/',
      body: { type: 'custom', description: 'Matrix', properties: {}, ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }) },
    }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'benefits:get': {
    who: tokens,
    scopes: ['benefits:read', 'benefits:write'],
    ask: (t) => ({ path: `/v1/benefits/${t.benefit_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'benefits:update': {
    who: tokens,
    scopes: ['benefits:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/benefits/${t.benefit_id}`, body: { type: 'custom', description: 'Renamed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'benefits:delete': {
    who: tokens,
    scopes: ['benefits:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/benefits/${t.benefit_id}` }),
    granted: 204,
    foreign: 'absent',
  },
  'benefits:grants': {
    who: tokens,
    scopes: benefitsRead,
    ask: (t) => ({ path: `/v1/benefits/${t.benefit_id}/grants?limit=100` }),
    granted: 200,
    foreign: 'absent',
  },
  'benefit-grants:list': { who: tokens, scopes: benefitsRead, ask: () => ({ path: '/v1/benefit-grants/?limit=100' }), granted: 200 },
  'benefit-grants:get': {
    who: tokens,
    scopes: benefitsRead,
    ask: (t) => ({ path: `/v1/benefit-grants/${t.grant_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'benefit-grants:create': {
    who: tokens,
    scopes: ['benefits:write'],
    roles: crew,
    ask: (t) => ({ path: '/v1/benefit-grants/', body: { customer_id: t.customer_id, benefit_id: t.benefit_id } }),
    granted: 201,
    foreign: 'invalid',
  },
  'benefit-grants:revoke': {
    who: tokens,
    scopes: ['benefits:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/benefit-grants/${t.grant_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'license_keys:list': { who: tokens, scopes: keysRead, ask: () => ({ path: '/v1/license-keys/?limit=100' }), granted: 200 },
  'license_keys:get': {
    who: tokens,
    scopes: keysRead,
    ask: (t) => ({ path: `/v1/license-keys/${t.license_key_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'license_keys:update': {
    who: tokens,
    scopes: ['license_keys:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/license-keys/${t.license_key_id}`, body: { status: 'revoked', limit_usage: 7 } }),
    granted: 200,
    foreign: 'absent',
  },
  'license_keys:get_activation': {
    who: tokens,
    scopes: keysRead,
    ask: (t) => ({ path: `/v1/license-keys/${t.license_key_id}/activations/${t.activation_id}` }),
    granted: 200,
    foreign: 'absent',
    nested: 'license_key_id',
  },
  'license_keys:rotate': {
    who: tokens,
    scopes: ['license_keys:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/license-keys/${t.license_key_id}/rotate` }),
    granted: 200,
    foreign: 'absent',
  },
  'license_keys:offline': {
    who: tokens,
    scopes: ['license_keys:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/license-keys/${t.license_key_id}/offline`, body: { activation_id: t.activation_id } }),
    granted: 200,
    foreign: 'absent',
    nested: 'license_key_id',
  },
  'license_keys:signing_keys': { who: 'open', scopes: [], ask: () => ({ path: '/v1/licence-signing-keys' }), granted: 200 },
  'license_keys:validate': {
    who: tokens,
    scopes: ['license_keys:write'],
    roles: crew,
    ask: (t) => ({ path: '/v1/license-keys/validate', body: { key: t.license_key, organization_id: t.organization_id, activation_id: t.activation_id } }),
    granted: 200,
    foreign: 'absent',
    nested: 'organization_id',
  },
  'license_keys:activate': {
    who: tokens,
    scopes: ['license_keys:write'],
    roles: crew,
    ask: (t) => ({ path: '/v1/license-keys/activate', body: { key: t.license_key, organization_id: t.organization_id, label: 'Matrix' } }),
    granted: 200,
    foreign: 'absent',
    nested: 'organization_id',
  },
  'license_keys:deactivate': {
    who: tokens,
    scopes: ['license_keys:write'],
    roles: crew,
    ask: (t) => ({ path: '/v1/license-keys/deactivate', body: { key: t.license_key, organization_id: t.organization_id, activation_id: t.activation_id } }),
    granted: 204,
    foreign: 'absent',
    nested: 'organization_id',
  },
  'products:update_benefits': {
    who: tokens,
    scopes: ['products:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/products/${t.product_id}/benefits`, body: { benefits: [] } }),
    granted: 200,
    foreign: 'absent',
  },
  'custom-fields:list': {
    who: tokens,
    scopes: ['custom_fields:read', 'custom_fields:write'],
    ask: () => ({ path: '/v1/custom-fields/?limit=100' }),
    granted: 200,
  },
  'custom-fields:create': {
    who: tokens,
    scopes: ['custom_fields:write'],
    roles: crew,
    ask: (t) => ({
      path: '/v1/custom-fields/',
      body: {
        type: 'checkbox',
        slug: `field-${serial++}`,
        name: 'Field',
        properties: {},
        ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }),
      },
    }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'custom-fields:get': {
    who: tokens,
    scopes: ['custom_fields:read', 'custom_fields:write'],
    ask: (t) => ({ path: `/v1/custom-fields/${t.custom_field_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'custom-fields:update': {
    who: tokens,
    scopes: ['custom_fields:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/custom-fields/${t.custom_field_id}`, body: { type: 'text', name: 'Changed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'custom-fields:delete': {
    who: tokens,
    scopes: ['custom_fields:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/custom-fields/${t.custom_field_id}` }),
    granted: 204,
    foreign: 'absent',
  },

  'customers:list': { who: tokens, scopes: customersRead, ask: () => ({ path: '/v1/customers/?limit=100' }), granted: 200 },
  'customers:export': { who: tokens, scopes: customersRead, ask: () => ({ path: '/v1/customers/export' }), granted: 200 },
  'customers:create': {
    who: tokens,
    scopes: ['customers:write'],
    roles: crew,
    ask: (t) => ({
      path: '/v1/customers/',
      body: { email: `matrix-${serial++}@people.test`, ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }) },
    }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'customers:get': { who: tokens, scopes: customersRead, ask: (t) => ({ path: `/v1/customers/${t.customer_id}` }), granted: 200, foreign: 'absent' },
  'customers:get_external': { who: tokens, scopes: customersRead, ask: (t) => ({ path: external(t) }), granted: 200, foreign: 'absent' },
  'customers:update': {
    who: tokens,
    scopes: ['customers:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/customers/${t.customer_id}`, body: { name: 'Changed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'customers:update_external': {
    who: tokens,
    scopes: ['customers:write'],
    roles: crew,
    ask: (t) => ({ path: external(t), body: { name: 'Changed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'customers:delete': {
    who: tokens,
    scopes: ['customers:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/customers/${t.customer_id}` }),
    granted: 204,
    foreign: 'absent',
  },
  'customers:delete_external': { who: tokens, scopes: ['customers:write'], roles: crew, ask: (t) => ({ path: external(t) }), granted: 204, foreign: 'absent' },
  'customers:list_payment_methods': {
    who: tokens,
    scopes: customersRead,
    ask: (t) => ({ path: `/v1/customers/${t.customer_id}/payment-methods` }),
    granted: 200,
    foreign: 'absent',
  },
  'customers:list_payment_methods_external': {
    who: tokens,
    scopes: customersRead,
    ask: (t) => ({ path: `${external(t)}/payment-methods` }),
    granted: 200,
    foreign: 'absent',
  },

  'members:list_members': { who: tokens, scopes: membersRead, ask: () => ({ path: '/v1/members/?limit=100' }), granted: 200 },
  'customers:get_state': {
    who: tokens,
    scopes: customersRead,
    ask: (t) => ({ path: `/v1/customers/${t.customer_id}/state` }),
    granted: 200,
    foreign: 'absent',
  },
  'customers:get_state_external': { who: tokens, scopes: customersRead, ask: (t) => ({ path: `${external(t)}/state` }), granted: 200, foreign: 'absent' },
  'customers:get_state_token': {
    who: tokens,
    scopes: customersRead,
    ask: (t) => ({ path: `/v1/customers/${t.customer_id}/state/token` }),
    granted: 200,
    foreign: 'absent',
  },
  'customers:get_state_token_external': {
    who: tokens,
    scopes: customersRead,
    ask: (t) => ({ path: `${external(t)}/state/token` }),
    granted: 200,
    foreign: 'absent',
  },

  'customers:members:list': {
    who: tokens,
    scopes: membersRead,
    ask: (t) => ({ path: `/v1/customers/${t.customer_id}/members` }),
    granted: 200,
    foreign: 'absent',
  },
  'customers:members:list_external': { who: tokens, scopes: membersRead, ask: (t) => ({ path: `${external(t)}/members` }), granted: 200, foreign: 'absent' },
  'customers:members:create': {
    who: tokens,
    scopes: ['members:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/customers/${t.customer_id}/members`, body: { email: `matrix-${serial++}@people.test` } }),
    granted: 201,
    foreign: 'absent',
  },
  'customers:members:create_external': {
    who: tokens,
    scopes: ['members:write'],
    roles: crew,
    ask: (t) => ({ path: `${external(t)}/members`, body: { email: `matrix-${serial++}@people.test` } }),
    granted: 201,
    foreign: 'absent',
  },
  ...Object.fromEntries(
    (['get', 'update', 'delete'] as const).flatMap((action) =>
      (['customer_id', 'customer_external_id'] as const).map((nested): [string, Policy] => [
        `customers:members:${action}${nested === 'customer_id' ? '' : '_external'}`,
        {
          who: tokens,
          scopes: action === 'get' ? membersRead : ['members:write'],
          ...(action === 'get' ? {} : { roles: crew }),
          ask: (t) => ({
            path: nested === 'customer_id' ? `/v1/customers/${t.customer_id}/members/${t.person_id}` : `${external(t)}/members/${t.person_external_id}`,
            ...(action === 'update' ? { body: { name: 'Changed' } } : {}),
          }),
          granted: action === 'delete' ? 204 : 200,
          foreign: 'absent',
          nested,
        },
      ]),
    ),
  ),

  'members:create_member': {
    who: tokens,
    scopes: ['members:write'],
    roles: crew,
    ask: (t) => ({ path: '/v1/members/', body: { customer_id: t.customer_id, email: `matrix-${serial++}@people.test` } }),
    granted: 201,
    foreign: 'absent',
  },
  ...Object.fromEntries(
    (['get', 'update', 'delete'] as const).flatMap((action) =>
      (['', '_by_external_id'] as const).map((by): [string, Policy] => [
        `members:${action}_member${by}`,
        {
          who: tokens,
          scopes: action === 'get' ? membersRead : ['members:write'],
          ...(action === 'get' ? {} : { roles: crew }),
          ask: (t) => ({
            path: by === '' ? `/v1/members/${t.person_id}` : `/v1/members/external/${t.person_external_id}?external_customer_id=${t.customer_external_id}`,
            ...(action === 'update' ? { body: { name: 'Changed' } } : {}),
          }),
          granted: action === 'delete' ? 204 : 200,
          foreign: 'absent',
          ...(by === '' ? {} : { nested: 'customer_external_id' as const }),
        },
      ]),
    ),
  ),

  'customer-sessions:create': {
    who: tokens,
    scopes: ['customer_sessions:write'],
    roles: crew,
    ask: (t) => ({ path: '/v1/customer-sessions/', body: { customer_id: t.customer_id, member_id: t.person_id } }),
    granted: 201,
    foreign: 'invalid',
    nested: 'customer_id',
  },

  'customer_portal:customer-session:introspect': {
    who: 'portal',
    scopes: [],
    portal: everyone,
    ask: () => ({ path: '/v1/customer-portal/customer-session/introspect' }),
    granted: 200,
  },
  'customer_portal:customer-session:get_authenticated_user': {
    who: 'portal',
    scopes: [],
    portal: everyone,
    ask: () => ({ path: '/v1/customer-portal/customer-session/user' }),
    granted: 200,
  },
  'customer_portal:customer-session:end': {
    who: 'portal',
    scopes: [],
    portal: everyone,
    ask: () => ({ path: '/v1/customer-portal/customer-session' }),
    granted: 204,
  },
  'customer_portal:customer-session:request': {
    who: 'open',
    scopes: [],
    ask: (t) => ({ path: '/v1/customer-portal/customer-session/request', body: { organization_id: t.organization_id, email: 'nobody@people.test' } }),
    granted: 202,
  },
  'customer_portal:customer-session:authenticate': {
    who: 'open',
    scopes: [],
    ask: (t) => ({
      path: '/v1/customer-portal/customer-session/authenticate',
      body: { organization_id: t.organization_id, email: 'stranger@people.test', code: '123456' },
    }),
    granted: [401, 'CustomerSessionCodeInvalidOrExpired'],
  },
  'customer_portal:customer-session:exchange': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/customer-portal/customer-session/exchange', body: { code: 'bursar_test_cpc_made_up' } }),
    granted: [401, 'CustomerSessionCodeInvalidOrExpired'],
  },
  'customer_portal:customers:get': { who: 'portal', scopes: [], portal: everyone, ask: () => ({ path: '/v1/customer-portal/customers/me' }), granted: 200 },
  'customer_portal:customers:update': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({ path: '/v1/customer-portal/customers/me', body: { billing_name: `Billed ${serial++}` } }),
    granted: 200,
  },
  'customer_portal:customers:list_payment_methods': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({ path: '/v1/customer-portal/customers/me/payment-methods' }),
    granted: 200,
  },
  'customer_portal:customers:get_payment_form': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({ path: '/v1/customer-portal/customers/me/payment-methods/form' }),
    granted: 200,
  },
  'customer_portal:customers:add_payment_method': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({
      path: '/v1/customer-portal/customers/me/payment-methods',
      body: { confirmation_token_id: 'tok_visa', set_default: false, return_url: 'https://shop.example/portal' },
    }),
    granted: 201,
  },
  'customer_portal:customers:confirm_payment_method': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({ path: '/v1/customer-portal/customers/me/payment-methods/confirm', body: { setup_intent_id: 'made-up', set_default: false } }),
    granted: [403, 'CustomerNotReady'],
  },
  'customer_portal:customers:delete_payment_method': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/customers/me/payment-methods/${t.payment_method_id}` }),
    granted: 204,
    foreign: 'absent',
  },
  'customer_portal:customers:request_email_update': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({ path: '/v1/customer-portal/customers/me/email-update/request', body: { email: `matrix-${serial++}@people.test` } }),
    granted: 202,
  },
  'customer_portal:customers:check_email_update': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/customer-portal/customers/me/email-update/check?token=bursar_test_cec_made_up' }),
    granted: [401, 'EmailUpdateInvalidOrExpired'],
  },
  'customer_portal:customers:verify_email_update': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/customer-portal/customers/me/email-update/verify', body: { token: 'bursar_test_cec_made_up' } }),
    granted: [401, 'EmailUpdateInvalidOrExpired'],
  },
  'customer_portal:members:list_members': {
    who: 'portal',
    scopes: [],
    portal: leaders,
    membersOnly: true,
    ask: () => ({ path: '/v1/customer-portal/members?limit=100' }),
    granted: 200,
  },
  'customer_portal:members:add_member': {
    who: 'portal',
    scopes: [],
    portal: leaders,
    membersOnly: true,
    ask: () => ({ path: '/v1/customer-portal/members', body: { email: `matrix-${serial++}@people.test` } }),
    granted: 201,
  },
  'customer_portal:members:update_member': {
    who: 'portal',
    scopes: [],
    portal: leaders,
    membersOnly: true,
    ask: (t) => ({ path: `/v1/customer-portal/members/${t.person_id}`, body: { name: `Named ${serial++}` } }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:members:remove_member': {
    who: 'portal',
    scopes: [],
    portal: leaders,
    membersOnly: true,
    ask: (t) => ({ path: `/v1/customer-portal/members/${t.person_id}` }),
    granted: 204,
    foreign: 'absent',
  },
  'customer_portal:organizations:get': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/customer-portal/organizations/no-such-seller' }),
    granted: [404, 'ResourceNotFound'],
  },

  'webhooks:list_webhook_endpoints': { who: tokens, scopes: hooksRead, ask: () => ({ path: '/v1/webhooks/endpoints?limit=100' }), granted: 200 },
  'webhooks:create_webhook_endpoint': {
    who: tokens,
    scopes: ['webhooks:write'],
    roles: managers,
    ask: (t) => ({
      path: '/v1/webhooks/endpoints',
      body: {
        url: 'https://example.com/hooks',
        format: 'raw',
        events: ['order.paid'],
        ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }),
      },
    }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'webhooks:get_webhook_endpoint': {
    who: tokens,
    scopes: hooksRead,
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/endpoints/${t.endpoint_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'webhooks:update_webhook_endpoint': {
    who: tokens,
    scopes: ['webhooks:write'],
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/endpoints/${t.endpoint_id}`, body: { name: 'Changed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'webhooks:delete_webhook_endpoint': {
    who: tokens,
    scopes: ['webhooks:write'],
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/endpoints/${t.endpoint_id}` }),
    granted: 204,
    foreign: 'absent',
  },
  'webhooks:reset_webhook_endpoint_secret': {
    who: tokens,
    scopes: ['webhooks:write'],
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/endpoints/${t.endpoint_id}/secret` }),
    granted: 200,
    foreign: 'absent',
  },
  'webhooks:reveal_webhook_endpoint_secret': {
    who: tokens,
    scopes: ['webhooks:write'],
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/endpoints/${t.endpoint_id}/reveal` }),
    granted: 200,
    foreign: 'absent',
  },
  'webhooks:list_webhook_deliveries': { who: tokens, scopes: hooksRead, ask: () => ({ path: '/v1/webhooks/deliveries?limit=100' }), granted: 200 },
  'webhooks:redeliver_webhook_event': {
    who: tokens,
    scopes: ['webhooks:write'],
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/events/${t.event_id}/redeliver` }),
    granted: 202,
    foreign: 'absent',
  },
  'webhooks:preview_webhook_event': {
    who: tokens,
    scopes: hooksRead,
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/events/${t.event_id}/preview` }),
    granted: 200,
    foreign: 'absent',
  },
  'tax-settings:get': {
    who: tokens,
    scopes: readers,
    roles: ['owner', 'admin', 'finance'],
    ask: (t) => ({ path: `/v1/tax-settings/?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  'tax-settings:update': {
    who: tokens,
    scopes: writers,
    roles: managers,
    ask: (t) => ({
      path: '/v1/tax-settings/',
      body: {
        provider: 'rates',
        rates: [{ country: 'DE', rate: '19', reverse_charge: true }],
        ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }),
      },
    }),
    granted: 200,
    foreign: 'invalid',
    implied: true,
  },
  'audit-log:list': {
    who: tokens,
    scopes: ['organizations:read', 'organizations:write'],
    roles: managers,
    ask: (t) => ({ path: `/v1/audit-log/?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  'webhooks:list_events': {
    who: tokens,
    scopes: hooksRead,
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/events?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  'webhooks:replay_webhook_endpoint': {
    who: tokens,
    scopes: ['webhooks:write'],
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/endpoints/${t.endpoint_id}/replay`, body: { from_sequence: 1 } }),
    granted: 202,
    foreign: 'absent',
  },
  'webhooks:get_webhook_replay': {
    who: tokens,
    scopes: hooksRead,
    roles: managers,
    ask: (t) => ({ path: `/v1/webhooks/endpoints/${t.endpoint_id}/replays/${t.replay_id}` }),
    granted: 200,
    foreign: 'absent',
    nested: 'endpoint_id',
  },

  'checkouts:list': {
    who: tokens,
    scopes: ['checkouts:read', 'checkouts:write'],
    ask: () => ({ path: '/v1/checkouts/?limit=100&sorting=created_at' }),
    granted: 200,
  },
  'checkouts:create': {
    who: tokens,
    scopes: ['checkouts:write'],
    ask: (t) => ({ path: '/v1/checkouts/', body: { products: [t.product_id], customer_id: t.customer_id, discount_id: t.discount_id } }),
    granted: 201,
    foreign: 'invalid',
    // Our product, sold to somebody else's customer.
    nested: 'product_id',
  },
  'checkouts:get': {
    who: tokens,
    scopes: ['checkouts:read', 'checkouts:write'],
    ask: (t) => ({ path: `/v1/checkouts/${t.checkout_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'checkouts:update': {
    who: tokens,
    scopes: ['checkouts:write'],
    ask: (t) => ({ path: `/v1/checkouts/${t.checkout_id}`, body: { metadata: { changed: true } } }),
    granted: 200,
    foreign: 'absent',
  },
  'checkouts:client_get': { who: 'open', scopes: [], ask: (t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}` }), granted: 200 },
  'checkouts:client_update': {
    who: 'open',
    scopes: [],
    ask: (t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}`, body: { discount_code: 'NO-SUCH-CODE' } }),
    granted: [422, 'RequestValidationError'],
  },
  'checkouts:client_confirm': {
    who: 'open',
    scopes: [],
    ask: (t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}/confirm`, body: {} }),
    granted: [422, 'RequestValidationError'],
  },

  'checkout-links:list': {
    who: tokens,
    scopes: ['checkout_links:read', 'checkout_links:write'],
    ask: () => ({ path: '/v1/checkout-links/?limit=100&sorting=created_at' }),
    granted: 200,
  },
  'checkout-links:create': {
    who: tokens,
    scopes: ['checkout_links:write'],
    ask: (t) => ({ path: '/v1/checkout-links/', body: { payment_processor: 'stripe', products: [t.product_id], discount_id: t.discount_id } }),
    granted: 201,
    foreign: 'invalid',
    // Our product, with somebody else's discount.
    nested: 'product_id',
  },
  'checkout-links:get': {
    who: tokens,
    scopes: ['checkout_links:read', 'checkout_links:write'],
    ask: (t) => ({ path: `/v1/checkout-links/${t.link_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'checkout-links:update': {
    who: tokens,
    scopes: ['checkout_links:write'],
    ask: (t) => ({ path: `/v1/checkout-links/${t.link_id}`, body: { label: 'Changed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'checkout-links:delete': {
    who: tokens,
    scopes: ['checkout_links:write'],
    ask: (t) => ({ path: `/v1/checkout-links/${t.link_id}` }),
    granted: 204,
    foreign: 'absent',
  },
  'checkout-links:redirect': { who: 'open', scopes: [], ask: (t) => ({ path: `/v1/checkout-links/${t.link_secret}/redirect` }), granted: 302 },

  'orders:create': {
    who: tokens,
    scopes: ['orders:write'],
    ask: (t) => ({
      path: '/v1/orders/',
      body: { customer_id: t.customer_id, product_id: t.product_id, ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }) },
    }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'orders:finalize': {
    who: tokens,
    scopes: ['orders:write'],
    // It is paid already.
    ask: (t) => ({ path: `/v1/orders/${t.order_id}/finalize`, body: {} }),
    granted: [412, 'OrderNotDraft'],
    foreign: 'absent',
  },
  'orders:list': { who: tokens, scopes: ['orders:read'], ask: () => ({ path: '/v1/orders/?limit=100&sorting=created_at' }), granted: 200 },
  'orders:export': {
    who: tokens,
    scopes: ['orders:read'],
    ask: () => ({ path: '/v1/orders/export?columns=email&columns=product&columns=billing_name' }),
    granted: 200,
  },
  'orders:get': { who: tokens, scopes: ['orders:read'], ask: (t) => ({ path: `/v1/orders/${t.order_id}` }), granted: 200, foreign: 'absent' },
  'orders:update': {
    who: tokens,
    scopes: ['orders:write'],
    ask: (t) => ({ path: `/v1/orders/${t.order_id}`, body: { billing_name: 'Changed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'orders:generate_invoice': {
    who: tokens,
    scopes: ['orders:read'],
    ask: (t) => ({ path: `/v1/orders/${t.order_id}/invoice` }),
    granted: [422, 'MissingInvoiceBillingDetails'],
    foreign: 'absent',
  },
  'orders:invoice': {
    who: tokens,
    scopes: ['orders:read'],
    ask: (t) => ({ path: `/v1/orders/${t.order_id}/invoice` }),
    granted: [404, 'ResourceNotFound'],
    foreign: 'absent',
  },
  'orders:receipt': {
    who: tokens,
    scopes: ['orders:read'],
    ask: (t) => ({ path: `/v1/orders/${t.order_id}/receipt` }),
    granted: 202,
    foreign: 'absent',
  },
  'refunds:credit_note': {
    who: tokens,
    scopes: ['refunds:read', 'refunds:write'],
    ask: (t) => ({ path: `/v1/refunds/${t.refund_id}/credit-note` }),
    granted: 202,
    foreign: 'absent',
  },
  'seller-identity:get': {
    who: tokens,
    scopes: readers,
    roles: ['owner', 'admin', 'finance'],
    ask: (t) => ({ path: `/v1/seller-identity/?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  'seller-identity:update': {
    who: tokens,
    scopes: writers,
    roles: managers,
    ask: (t) => ({
      path: '/v1/seller-identity/',
      body: { legal_name: 'Acme', address: { country: 'DE' }, ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }) },
    }),
    granted: 200,
    foreign: 'invalid',
    implied: true,
  },
  'payments:list': { who: tokens, scopes: ['payments:read'], ask: () => ({ path: '/v1/payments/?limit=100&sorting=created_at' }), granted: 200 },
  'payments:get': { who: tokens, scopes: ['payments:read'], ask: (t) => ({ path: `/v1/payments/${t.payment_id}` }), granted: 200, foreign: 'absent' },
  'refunds:list': {
    who: tokens,
    scopes: ['refunds:read', 'refunds:write'],
    ask: () => ({ path: '/v1/refunds/?limit=100&sorting=created_at' }),
    granted: 200,
  },
  'disputes:list': {
    who: tokens,
    scopes: ['disputes:read', 'disputes:write'],
    ask: () => ({ path: '/v1/disputes/?limit=100&sorting=created_at' }),
    granted: 200,
  },
  'disputes:get': {
    who: tokens,
    scopes: ['disputes:read', 'disputes:write'],
    ask: (t) => ({ path: `/v1/disputes/${t.dispute_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'disputes:accept': {
    who: tokens,
    scopes: ['disputes:write'],
    ask: (t) => ({ path: `/v1/disputes/${t.dispute_id}/accept` }),
    granted: [409, 'DisputeNotOpenError'],
    foreign: 'absent',
  },
  'refunds:create': {
    who: tokens,
    scopes: ['refunds:write'],
    ask: (t) => ({ path: '/v1/refunds/', body: { order_id: t.order_id, reason: 'customer_request', amount: 100 } }),
    granted: 201,
    foreign: 'invalid',
  },
  'subscriptions:export': {
    who: tokens,
    scopes: ['subscriptions:read', 'subscriptions:write'],
    ask: () => ({ path: '/v1/subscriptions/export?columns=email&columns=product&columns=customer_name&columns=billing_name' }),
    granted: 200,
  },
  'subscriptions:list': {
    who: tokens,
    scopes: ['subscriptions:read', 'subscriptions:write'],
    ask: () => ({ path: '/v1/subscriptions/?limit=100&sorting=started_at' }),
    granted: 200,
  },
  'subscriptions:get': {
    who: tokens,
    scopes: ['subscriptions:read', 'subscriptions:write'],
    ask: (t) => ({ path: `/v1/subscriptions/${t.subscription_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'subscriptions:create': {
    who: tokens,
    scopes: ['subscriptions:write'],
    ask: (t) => ({ path: '/v1/subscriptions/', body: { product_id: t.free_plan_id, customer_id: t.customer_id } }),
    granted: 201,
    foreign: 'invalid',
  },
  'subscriptions:update': {
    who: tokens,
    scopes: ['subscriptions:write'],
    ask: (t) => ({ path: `/v1/subscriptions/${t.subscription_id}`, body: { metadata: { serial: serial++ } } }),
    granted: 200,
    foreign: 'absent',
  },
  // It has no seats, and whoever may ask is told so.
  'subscriptions:preview': {
    who: tokens,
    scopes: ['subscriptions:write'],
    ask: (t) => ({ path: `/v1/subscriptions/${t.subscription_id}/preview`, body: { seats: 2 } }),
    granted: [400, 'NotASeatBasedSubscription'],
    foreign: 'absent',
  },
  'subscriptions:revoke': {
    who: tokens,
    scopes: ['subscriptions:write'],
    ask: (t) => ({ path: `/v1/subscriptions/${t.subscription_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:subscriptions:list': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({ path: '/v1/customer-portal/subscriptions/?limit=100&sorting=started_at' }),
    granted: 200,
  },
  'customer_portal:subscriptions:get': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/subscriptions/${t.subscription_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:subscriptions:update': {
    who: 'portal',
    scopes: [],
    portal: payers,
    // No change waits, and whoever may ask is told so.
    ask: (t) => ({ path: `/v1/customer-portal/subscriptions/${t.subscription_id}`, body: { pending_update: null } }),
    granted: [422, 'RequestValidationError'],
    foreign: 'absent',
  },
  'customer_portal:subscriptions:preview': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/subscriptions/${t.subscription_id}/preview`, body: { seats: 2 } }),
    granted: [400, 'NotASeatBasedSubscription'],
    foreign: 'absent',
  },
  'customer_portal:subscriptions:cancel': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/subscriptions/${t.subscription_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:benefit-grants:list': {
    who: 'portal',
    scopes: [],
    portal: everyone,
    ask: () => ({ path: '/v1/customer-portal/benefit-grants/?limit=100&sorting=granted_at' }),
    granted: 200,
  },
  // What is the customer's own is the owner's; whoever else is in the team has nothing of it.
  'customer_portal:benefit-grants:get': {
    who: 'portal',
    scopes: [],
    portal: ['customer', 'owner'],
    hidden: true,
    ask: (t) => ({ path: `/v1/customer-portal/benefit-grants/${t.grant_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:benefit-grants:update': {
    who: 'portal',
    scopes: [],
    portal: ['customer', 'owner'],
    hidden: true,
    ask: (t) => ({ path: `/v1/customer-portal/benefit-grants/${t.grant_id}`, body: { benefit_type: 'custom' } }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:downloadables:list': {
    who: 'portal',
    scopes: [],
    portal: everyone,
    ask: () => ({ path: '/v1/customer-portal/downloadables/?limit=100' }),
    granted: 200,
  },
  'customer_portal:downloadables:get': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/customer-portal/downloadables/made-up' }),
    granted: [404, 'ResourceNotFound'],
  },
  'customer_portal:license_keys:list': {
    who: 'portal',
    scopes: [],
    portal: everyone,
    ask: () => ({ path: '/v1/customer-portal/license-keys/?limit=100' }),
    granted: 200,
  },
  'customer_portal:license_keys:get': {
    who: 'portal',
    scopes: [],
    portal: ['customer', 'owner'],
    hidden: true,
    ask: (t) => ({ path: `/v1/customer-portal/license-keys/${t.license_key_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:license_keys:rotate': {
    who: 'portal',
    scopes: [],
    portal: ['customer', 'owner'],
    hidden: true,
    ask: (t) => ({ path: `/v1/customer-portal/license-keys/${t.license_key_id}/rotate` }),
    granted: 200,
    foreign: 'absent',
  },
  // Whoever knows a key may use it: who asks changes nothing, and a key that is none is not there.
  'customer_portal:license_keys:validate': {
    who: 'open',
    scopes: [],
    ask: (t) => ({ path: '/v1/customer-portal/license-keys/validate', body: { key: 'made-up', organization_id: t.organization_id } }),
    granted: [404, 'ResourceNotFound'],
  },
  'customer_portal:license_keys:activate': {
    who: 'open',
    scopes: [],
    ask: (t) => ({ path: '/v1/customer-portal/license-keys/activate', body: { key: 'made-up', organization_id: t.organization_id, label: 'Matrix' } }),
    granted: [404, 'ResourceNotFound'],
  },
  'customer_portal:license_keys:deactivate': {
    who: 'open',
    scopes: [],
    ask: (t) => ({
      path: '/v1/customer-portal/license-keys/deactivate',
      body: { key: 'made-up', organization_id: t.organization_id, activation_id: t.activation_id },
    }),
    granted: [404, 'ResourceNotFound'],
  },
  'customer_portal:wallets:list': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({ path: '/v1/customer-portal/wallets/?limit=100&sorting=created_at' }),
    granted: 200,
  },
  'customer_portal:wallets:get': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/wallets/${t.wallet_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:orders:list': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: () => ({ path: '/v1/customer-portal/orders/?limit=100&sorting=created_at' }),
    granted: 200,
  },
  'customer_portal:orders:get': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/orders/${t.order_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:orders:update': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/orders/${t.order_id}`, body: { billing_name: `Billed ${serial++}` } }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:orders:get_payment_status': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/orders/${t.order_id}/payment-status` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:orders:generate_invoice': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/orders/${t.order_id}/invoice` }),
    granted: [409, 'OrderNotEligibleForInvoice'],
    foreign: 'absent',
  },
  'customer_portal:orders:invoice': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/orders/${t.order_id}/invoice` }),
    granted: [404, 'ResourceNotFound'],
    foreign: 'absent',
  },
  'customer_portal:orders:receipt': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/orders/${t.order_id}/receipt` }),
    granted: [404, 'ResourceNotFound'],
    foreign: 'absent',
  },
  'customer_portal:orders:refunds': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/orders/${t.order_id}/refunds` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:orders:credit_note': {
    who: 'portal',
    scopes: [],
    portal: payers,
    // What ours has was not given back.
    ask: (t) => ({ path: `/v1/customer-portal/orders/${t.order_id}/refunds/${t.refund_id}/credit-note` }),
    granted: [404, 'ResourceNotFound'],
    foreign: 'absent',
  },
  'customer_portal:orders:confirm_retry_payment': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/orders/${t.order_id}/confirm-payment`, body: { confirmation_token_id: 'tok_visa' } }),
    granted: 200,
    foreign: 'absent',
  },
  'customer-seats:assign_seat': {
    who: tokens,
    scopes: ['customer_seats:write'],
    roles: crew,
    ask: (t) => ({ path: '/v1/customer-seats', body: { subscription_id: t.seated_id, email: `matrix-${serial++}@people.test` } }),
    granted: 200,
    foreign: 'absent',
  },
  'customer-seats:list_seats': {
    who: tokens,
    scopes: seatsRead,
    ask: (t) => ({ path: `/v1/customer-seats?subscription_id=${t.seated_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer-seats:get': { who: tokens, scopes: seatsRead, ask: (t) => ({ path: `/v1/customer-seats/${t.seat_id}` }), granted: 200, foreign: 'absent' },
  'customer-seats:revoke_seat': {
    who: tokens,
    scopes: ['customer_seats:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/customer-seats/${t.seat_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer-seats:resend_invitation': {
    who: tokens,
    scopes: ['customer_seats:write'],
    roles: crew,
    ask: (t) => ({ path: `/v1/customer-seats/${t.seat_id}/resend` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer-seats:get_claim_info': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/customer-seats/claim/bursar_test_sit_made_up' }),
    granted: [404, 'ResourceNotFound'],
  },
  'customer-seats:claim_seat': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/customer-seats/claim', body: { invitation_token: 'bursar_test_sit_made_up' } }),
    granted: [400, 'InvalidInvitationToken'],
  },
  'customer-seats:request_invitation': {
    who: 'open',
    scopes: [],
    ask: () => ({ path: '/v1/customer-seats/claim/request', body: { invitation_token: 'bursar_test_sit_made_up' } }),
    granted: 202,
  },
  'customer_portal:seats:list_seats': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/seats?subscription_id=${t.seated_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:seats:assign_seat': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: '/v1/customer-portal/seats', body: { subscription_id: t.seated_id, email: `matrix-${serial++}@people.test` } }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:seats:revoke_seat': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/seats/${t.seat_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:seats:resend_invitation': {
    who: 'portal',
    scopes: [],
    portal: payers,
    ask: (t) => ({ path: `/v1/customer-portal/seats/${t.seat_id}/resend` }),
    granted: 200,
    foreign: 'absent',
  },
  'customer_portal:seats:list_claimed_subscriptions': {
    who: 'portal',
    scopes: [],
    portal: everyone,
    ask: () => ({ path: '/v1/customer-portal/seats/subscriptions?limit=100' }),
    granted: 200,
  },
  'test-clocks:list': { who: tokens, scopes: customersRead, ask: () => ({ path: '/v1/test-clocks/' }), granted: 200 },
  'test-clocks:create': {
    who: tokens,
    scopes: ['customers:write'],
    roles: crew,
    ask: (t) => ({ path: '/v1/test-clocks/', body: { name: 'Matrix', ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }) } }),
    granted: 201,
    foreign: 'invalid',
    implied: true,
  },
  'test-clocks:get': { who: tokens, scopes: customersRead, ask: (t) => ({ path: `/v1/test-clocks/${t.test_clock_id}` }), granted: 200, foreign: 'absent' },
  'test-clocks:advance': {
    who: tokens,
    scopes: ['customers:write'],
    roles: crew,
    // Into the past: whoever may move it is told that this cannot be, as often as they ask.
    ask: (t) => ({ path: `/v1/test-clocks/${t.test_clock_id}/advance`, body: { to: '2000-01-01T00:00:00Z' } }),
    granted: [422, 'RequestValidationError'],
    foreign: 'absent',
  },
  'member-migration:get': {
    who: tokens,
    scopes: readers,
    roles: managers,
    ask: (t) => ({ path: `/v1/member-migration/?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  // Whoever begins with members has nothing to rehearse, to do or to take back.
  'member-migration:rehearse': {
    who: tokens,
    scopes: writers,
    roles: managers,
    ask: (t) => ({ path: `/v1/member-migration/rehearsal?organization_id=${t.organization_id}` }),
    granted: [409, 'MigrationNotPossible'],
    foreign: 'invalid',
  },
  'member-migration:export': {
    who: tokens,
    scopes: writers,
    roles: managers,
    ask: (t) => ({ path: `/v1/member-migration/rehearsal/export?organization_id=${t.organization_id}` }),
    granted: [409, 'MigrationNotPossible'],
    foreign: 'invalid',
  },
  'member-migration:start': migrating('start', 'MigrationSealed'),
  'member-migration:switch': migrating('switch', 'MigrationSealed'),
  'member-migration:undo': migrating('undo', 'MigrationSealed'),
  'member-migration:seal': migrating('seal', 'MigrationSealed'),
  'member-migration:id-map': {
    who: tokens,
    scopes: readers,
    ask: (t) => ({ path: `/v1/member-migration/id-map?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  'member-migration:id-map:export': {
    who: tokens,
    scopes: readers,
    ask: (t) => ({ path: `/v1/member-migration/id-map/export?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  'member-migration:readiness': {
    who: tokens,
    scopes: readers,
    roles: managers,
    ask: (t) => ({ path: `/v1/member-migration/readiness?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  'payment-accounts:get': {
    who: tokens,
    scopes: ['organizations:read', 'organizations:write'],
    roles: ['owner', 'admin', 'finance'],
    ask: (t) => ({ path: `/v1/organizations/${t.organization_id}/payment-account` }),
    granted: 200,
    foreign: 'absent',
  },
  // The keys are of the wrong mode: whoever may connect an account is told so.
  'payment-accounts:connect': {
    who: tokens,
    scopes: ['organizations:write'],
    roles: ['owner', 'admin'],
    ask: (t) => ({
      path: `/v1/organizations/${t.organization_id}/payment-account`,
      body: { secret_key: 'sk_live_12345678', publishable_key: 'pk_live_12345678' },
    }),
    granted: [422, 'RequestValidationError'],
    foreign: 'absent',
  },
  'payment-accounts:receive_event': {
    who: 'open',
    scopes: [],
    ask: (t) => ({ path: `/v1/payment-accounts/${t.organization_id}/${t.order_id}/events`, body: {} }),
    granted: [404, 'ResourceNotFound'],
  },
}
