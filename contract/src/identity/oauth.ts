import { z } from 'zod'
import { failure, NotPermitted, operation, page, pageQuery, protocol, resource, session, sorting, stamps, text, named, visitor, uuid } from '../kit/index.ts'
import { isScope, scopes } from '../scopes.ts'
import { TokenScope } from './tokens.ts'

export const SubType = named('SubType', z.enum(['user', 'organization']))

export const clientAuthMethods = ['client_secret_basic', 'client_secret_post', 'none'] as const

/** URL schemes that execute code or read local data instead of opening a page. */
const hostile = /^(javascript|vbscript|data|blob|file|about|filesystem|view-source):/i
const loopback = /^(localhost|[a-z0-9-]+\.localhost|127\.0\.0\.1|\[::1\])$/

/** Returns why a URL is not allowed as a redirect URI, or undefined if it is allowed. */
export const whyNoRedirect = (address: string): string | undefined => {
  if (/[\s\\\p{Cc}]/u.test(address)) return 'An address has no spaces, backslashes or control characters.'
  if (hostile.test(address)) return 'This scheme cannot receive a redirect.'
  let url: URL
  try {
    url = new URL(address)
  } catch {
    return 'Expected an absolute address, for example https://app.example/callback.'
  }
  if (address.includes('#')) return 'A redirect address has no fragment.'
  if (url.username !== '' || url.password !== '' || /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*@/i.test(address)) return 'A redirect address names no user.'
  if (address.includes('*')) return 'A redirect address has no wildcard. Register each address.'
  if (url.protocol === 'https:') return url.hostname === '' ? 'Expected an address with a host.' : undefined
  if (url.protocol === 'http:')
    return loopback.test(url.hostname) ? undefined : 'http is accepted for this machine only (localhost, 127.0.0.1, [::1]); use https.'
  // A custom scheme must be a reversed domain name (RFC 8252, 7.1), so that two apps do not use the same scheme.
  return /^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+:$/i.test(url.protocol) ? undefined : 'A scheme of your own contains a dot, for example com.example.app:/callback.'
}

const RedirectUri = z
  .string()
  .min(1)
  .max(2083)
  .superRefine((address, ctx) => {
    const why = whyNoRedirect(address)
    if (why) ctx.addIssue({ code: 'custom', message: why })
  })
  .meta({ format: 'uri' })

/** A URL of a page about the app, shown as a link. Only https is allowed, so that the host in the link is authenticated. */
const about = (what: string) =>
  z
    .url({ protocol: /^https$/, hostname: z.regexes.domain })
    .max(2083)
    .nullish()
    .describe(what)

/** A list of scopes. Unknown scopes are dropped, because older clients request scopes that no longer exist. */
const scopeList = z
  .string()
  .max(4000)
  .overwrite((list) => list.split(' ').filter(isScope).join(' '))
  .refine((list) => list !== '', 'Name at least one known scope; several are separated by single spaces.')

const configuration = {
  redirect_uris: z.array(RedirectUri).min(1).max(20).describe('Addresses that may receive codes; compared character by character.'),
  token_endpoint_auth_method: z
    .enum(clientAuthMethods)
    .default('client_secret_post')
    .describe('`none` declares a public client: it has no secret and must use PKCE.'),
  grant_types: z
    .array(z.enum(['authorization_code', 'refresh_token']))
    .min(1)
    .max(2)
    .default(['authorization_code', 'refresh_token']),
  response_types: z.array(z.literal('code')).min(1).max(1).default(['code']),
  scope: scopeList.default(scopes.join(' ')).describe('The scopes this client may request, separated by spaces.'),
  client_name: text(1, 100).describe('Shown to people, as plain text.'),
  client_uri: about('A page about the app.'),
  logo_uri: about('Stored, but not loaded by our pages.'),
  tos_uri: about('The terms of service.'),
  policy_uri: about('The privacy policy.'),
  default_sub_type: SubType.default('user').describe('`organization`: the person chooses exactly one organization.'),
}

export const OAuth2ClientConfiguration = resource('OAuth2ClientConfiguration', configuration)
export type OAuth2ClientConfiguration = z.output<typeof OAuth2ClientConfiguration>

export const OAuth2ClientConfigurationUpdate = resource('OAuth2ClientConfigurationUpdate', {
  ...configuration,
  client_id: z.string().describe('The same as in the path.'),
  client_secret: z.string().max(200).optional().describe('If sent, must be the current secret.'),
})

export const OAuth2Client = resource('OAuth2Client', {
  ...stamps,
  client_id: z.string(),
  client_id_issued_at: z.int().describe('Seconds since 1970.'),
  redirect_uris: z.array(z.string()),
  token_endpoint_auth_method: z.enum(clientAuthMethods),
  grant_types: z.array(z.enum(['authorization_code', 'refresh_token'])),
  response_types: z.array(z.literal('code')),
  scope: z.string(),
  client_name: z.string(),
  client_uri: z.string().nullable(),
  logo_uri: z.string().nullable(),
  tos_uri: z.string().nullable(),
  policy_uri: z.string().nullable(),
  default_sub_type: SubType,
  verified: z.boolean().describe('True if the operator of this deployment has verified the app.'),
})
export type OAuth2Client = z.output<typeof OAuth2Client>

const registration = {
  ...OAuth2Client.shape,
  client_secret: z.string().optional().describe('Shown only when it is created. A public client has none.'),
  client_secret_expires_at: z.int().describe('0: it does not expire.'),
  registration_client_uri: z.string().describe('The address to read and change this registration.'),
}
export const OAuth2ClientRegistration = resource('OAuth2ClientRegistration', { ...registration, registration_access_token: z.string().optional() })
export type OAuth2ClientRegistration = z.output<typeof OAuth2ClientRegistration>

export const OAuth2ClientPublic = resource('OAuth2ClientPublic', {
  ...stamps,
  client_id: z.string(),
  client_name: z.string().nullable(),
  client_uri: z.string().nullable(),
  logo_uri: z.string().nullable(),
  tos_uri: z.string().nullable(),
  policy_uri: z.string().nullable(),
})

export const InvalidClient = failure('invalid_client', 401, 'This client is unknown, or the registration token does not belong to it.')
export const RegistrationTokenMissing = failure(
  'access_denied',
  400,
  'Send the registration token of this client (Authorization: Bearer <token>), or sign in as its owner.',
)
export const InvalidAuthorizationRequest = failure('invalid_request', 400, 'This authorization request is not valid. Check its parameters.')
export const SignInNeeded = failure('login_required', 401, 'No person is signed in to this browser. Sign in first.')

export const registerClient = operation({
  id: 'oauth2:clients:oauth2:create_client',
  method: 'POST',
  path: '/v1/oauth2/register',
  summary: 'Register a client',
  description:
    'RFC 7591. A signed-in person becomes the owner of the client. The secret and the registration token are shown in this answer only. People see the app as unverified until the operator verifies it.',
  access: visitor(),
  costs: 'none',
  budget: 'registration',
  body: OAuth2ClientConfiguration,
  returns: OAuth2ClientRegistration,
  status: 201,
  alsoDeclares: 200,
  fails: [],
})

const byClient = z.object({ client_id: z.string().max(200) })

export const getClient = operation({
  id: 'oauth2:clients:oauth2:get_client',
  method: 'GET',
  path: '/v1/oauth2/register/{client_id}',
  summary: 'Get a client',
  description: 'RFC 7592, with the registration token or as its owner.',
  access: visitor(),
  costs: 'none',
  params: byClient,
  returns: OAuth2ClientRegistration,
  fails: [InvalidClient, RegistrationTokenMissing],
})

export const updateClient = operation({
  id: 'oauth2:clients:oauth2:update_client',
  method: 'PUT',
  path: '/v1/oauth2/register/{client_id}',
  summary: 'Replace the configuration of a client',
  description:
    'RFC 7592. A public client that becomes confidential gets a secret, shown in this answer. A confidential client that becomes public loses its secret.',
  access: visitor(),
  costs: 'none',
  params: byClient,
  body: OAuth2ClientConfigurationUpdate,
  returns: OAuth2ClientRegistration,
  fails: [InvalidClient, RegistrationTokenMissing],
})

export const deleteClient = operation({
  id: 'oauth2:clients:oauth2:delete_client',
  method: 'DELETE',
  path: '/v1/oauth2/register/{client_id}',
  summary: 'Delete a client',
  description: 'Its tokens are rejected from the next request on.',
  access: visitor(),
  costs: 'none',
  params: byClient,
  fails: [InvalidClient, RegistrationTokenMissing],
})

export const listClients = operation({
  id: 'oauth2:clients:list',
  method: 'GET',
  path: '/v1/oauth2/',
  summary: 'List your clients',
  access: session(['user:read', 'user:write']),
  costs: 'none',
  query: z.object({ ...pageQuery, sorting: sorting('OAuth2ClientSortProperty', ['created_at', 'client_name'], ['-created_at']) }),
  returns: page('OAuth2ClientPage', OAuth2Client),
  fails: [],
})

const AuthorizeUser = resource('AuthorizeUser', { id: uuid(), email: z.string(), avatar_url: z.string().nullable() })
const AuthorizeOrganization = resource('AuthorizeOrganization', { id: uuid(), slug: z.string(), avatar_url: z.string().nullable() })

const description = {
  client: OAuth2ClientPublic,
  scopes: z.array(TokenScope),
  organizations: z.array(AuthorizeOrganization).describe('The organizations that the person can choose from.'),
  requires_single_organization: z.boolean(),
  scope_display_names: z.record(z.string(), z.string()),
}
export const AuthorizeResponseUser = resource('AuthorizeResponseUser', { ...description, sub_type: z.literal('user'), sub: AuthorizeUser.nullable() })
export const AuthorizeResponseOrganization = resource('AuthorizeResponseOrganization', {
  ...description,
  sub_type: z.literal('organization'),
  sub: AuthorizeOrganization.nullable(),
})

export const describeConsent = operation({
  id: 'oauth2:authorize',
  method: 'GET',
  path: '/v1/oauth2/authorize',
  summary: 'Describe an authorization request',
  description: 'The data of the consent page for the signed-in person. The authorization itself happens in the browser, at the authorization endpoint.',
  access: visitor(),
  costs: 'none',
  query: z.object({
    response_type: z.string().max(100).optional(),
    client_id: z.string().max(200).optional(),
    redirect_uri: z.string().max(2083).optional(),
    scope: z.string().max(4000).optional(),
    state: z.string().max(2000).optional(),
    sub_type: SubType.optional(),
  }),
  returns: z.discriminatedUnion('sub_type', [AuthorizeResponseUser, AuthorizeResponseOrganization]),
  fails: [InvalidAuthorizationRequest, SignInNeeded, NotPermitted],
})

const clientCredentials = {
  client_id: z.string(),
  client_secret: z.string().optional().describe('Omitted by public clients, and by clients that authenticate with a Basic header.'),
}

export const TokenResponse = resource('TokenResponse', {
  access_token: z.string(),
  token_type: z.literal('Bearer'),
  expires_in: z.int(),
  refresh_token: z.string().optional(),
  scope: z.string(),
  id_token: z.string().optional(),
})

export const requestToken = operation({
  id: 'oauth2:request_token',
  method: 'POST',
  path: '/v1/oauth2/token',
  summary: 'Exchange a code or a refresh token for tokens',
  description: 'An access token is valid for ten days with every grant type. Refresh tokens rotate: the answer contains the next one.',
  access: protocol(),
  costs: 'none',
  form: true,
  body: z.union([
    resource('AuthorizationCodeTokenRequest', {
      grant_type: z.literal('authorization_code'),
      ...clientCredentials,
      code: z.string(),
      redirect_uri: z.string().max(2083),
      code_verifier: z.string().optional().describe('PKCE: required for public clients, and for every client that sent a challenge.'),
    }),
    resource('RefreshTokenRequest', { grant_type: z.literal('refresh_token'), ...clientCredentials, refresh_token: z.string(), scope: z.string().optional() }),
    resource('WebTokenRequest', {
      grant_type: z.literal('web').describe('Answers `unsupported_grant_type`: sessions cannot leave their browser.'),
      ...clientCredentials,
      session_token: z.string(),
      sub_type: SubType.default('user'),
      sub: uuid().nullish(),
      scope: z.string().nullish(),
    }),
  ]),
  returns: TokenResponse,
  fails: [],
})

const tokenToLookUp = {
  token: z.string(),
  token_type_hint: z.enum(['access_token', 'refresh_token']).nullish(),
  ...clientCredentials,
}

export const revokeToken = operation({
  id: 'oauth2:revoke_token',
  method: 'POST',
  path: '/v1/oauth2/revoke',
  summary: 'Revoke a token',
  description: 'RFC 7009. Ends the token and all others from the same authorization. An unknown token also answers with success.',
  access: protocol(),
  costs: 'none',
  form: true,
  body: resource('RevokeTokenRequest', tokenToLookUp),
  returns: resource('RevokeTokenResponse', {}),
  fails: [],
})

export const introspectToken = operation({
  id: 'oauth2:introspect_token',
  method: 'POST',
  path: '/v1/oauth2/introspect',
  summary: 'Introspect a token',
  description: 'RFC 7662. A client can introspect only its own tokens. For any other token, and for an invalid one, the answer is `{"active": false}`.',
  access: protocol(),
  costs: 'none',
  form: true,
  body: resource('IntrospectTokenRequest', tokenToLookUp),
  returns: resource('IntrospectTokenResponse', {
    active: z.boolean().describe('If false, the fields below are absent.'),
    client_id: z.string(),
    token_type: z.enum(['access_token', 'refresh_token']),
    scope: z.string(),
    sub_type: SubType,
    sub: z.string(),
    organizations: z.array(z.string()).describe('The organizations that the person restricted the token to; empty if there is no restriction.'),
    aud: z.string(),
    iss: z.string(),
    exp: z.int(),
    iat: z.int(),
  }),
  fails: [],
})

export const getUserInfo = operation({
  id: 'oauth2:userinfo',
  method: 'GET',
  path: '/v1/oauth2/userinfo',
  summary: 'Get claims about the person',
  description:
    'Requires an OAuth access token with the scope `openid`; `email` and `profile` add their claims. Also answers to POST, as OpenID Connect requires.',
  access: protocol(['oidc']),
  costs: 'none',
  returns: resource('UserInfo', {
    sub: z.string(),
    name: z.string().nullish(),
    email: z.string().nullish(),
    email_verified: z.boolean().nullish(),
    picture: z.string().optional(),
    updated_at: z.int().optional(),
  }),
  fails: [],
})
