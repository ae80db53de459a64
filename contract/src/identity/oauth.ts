import { z } from 'zod'
import {
  failure,
  filter,
  NotPermitted,
  operation,
  page,
  pageQuery,
  protocol,
  resource,
  ResourceNotFound,
  session,
  sorting,
  stamps,
  text,
  timestamp,
  named,
  visitor,
  uuid,
} from '../kit/index.ts'
import { isScope, scopes } from '../scopes.ts'
import { TokenScope } from './tokens.ts'

export const SubType = named('SubType', z.enum(['user', 'organization']))

export const clientAuthMethods = ['client_secret_basic', 'client_secret_post', 'none'] as const

/** Schemes that run something instead of opening an address. */
const hostile = /^(javascript|vbscript|data|blob|file|about|filesystem|view-source):/i
const loopback = /^(localhost|[a-z0-9-]+\.localhost|127\.0\.0\.1|\[::1\])$/

/** Why an address cannot be one that codes are sent to; undefined when it can. */
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
  if (address.includes('*')) return 'A redirect address has no wildcard: register each one.'
  if (url.protocol === 'https:') return url.hostname === '' ? 'Expected a host.' : undefined
  if (url.protocol === 'http:')
    return loopback.test(url.hostname) ? undefined : 'http is accepted for this machine only (localhost, 127.0.0.1, [::1]); use https.'
  // A scheme of the app's own is its name turned round (RFC 8252, 7.1), so that no two apps share one.
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

/** A page about the app, shown as a link: https only, so that the link is what it looks like. */
const about = (what: string) =>
  z
    .url({ protocol: /^https$/, hostname: z.regexes.domain })
    .max(2083)
    .nullish()
    .describe(what)

/** Known scopes count; others are left out of the registration, because older clients name scopes that are gone. */
const scopeList = z
  .string()
  .max(4000)
  .overwrite((list) => list.split(' ').filter(isScope).join(' '))
  .refine((list) => list !== '', 'Name at least one known scope; several are separated by single spaces.')

const configuration = {
  redirect_uris: z.array(RedirectUri).min(1).max(20).describe('Where codes may be sent; compared character by character.'),
  token_endpoint_auth_method: z
    .enum(clientAuthMethods)
    .default('client_secret_post')
    .describe('`none` declares a public client: it keeps no secret and proves itself by PKCE.'),
  grant_types: z
    .array(z.enum(['authorization_code', 'refresh_token']))
    .min(1)
    .max(2)
    .default(['authorization_code', 'refresh_token']),
  response_types: z.array(z.literal('code')).min(1).max(1).default(['code']),
  scope: scopeList.default(scopes.join(' ')).describe('The scopes this client may ask for, separated by spaces.'),
  client_name: text(1, 100).describe('Shown to people, as plain text.'),
  client_uri: about('A page about the app.'),
  logo_uri: about('Kept, and not loaded by our pages.'),
  tos_uri: about('The terms of service.'),
  policy_uri: about('The privacy policy.'),
  default_sub_type: SubType.default('user').describe('`organization`: the person chooses exactly one organization.'),
}

export const OAuth2ClientConfiguration = resource('OAuth2ClientConfiguration', configuration)
export type OAuth2ClientConfiguration = z.output<typeof OAuth2ClientConfiguration>

export const OAuth2ClientConfigurationUpdate = resource('OAuth2ClientConfigurationUpdate', {
  ...configuration,
  client_id: z.string().describe('The same as in the address.'),
  client_secret: z.string().max(200).optional().describe('If sent, must be the current one.'),
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
  verified: z.boolean().describe('The operator of this deployment vouches for the app.'),
})
export type OAuth2Client = z.output<typeof OAuth2Client>

const registration = {
  ...OAuth2Client.shape,
  client_secret: z.string().optional().describe('Shown when it is made, and never again. A public client has none.'),
  client_secret_expires_at: z.int().describe('0: it does not expire.'),
  registration_client_uri: z.string().describe('Where this registration is read and changed.'),
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
export const InvalidAuthorizationRequest = failure('invalid_request', 400, 'This authorization request cannot be answered.')
export const SignInNeeded = failure('login_required', 401, 'Nobody is signed in in this browser.')

export const registerClient = operation({
  id: 'oauth2:clients:oauth2:create_client',
  method: 'POST',
  path: '/v1/oauth2/register',
  summary: 'Register a client',
  description:
    'RFC 7591. A person who is signed in becomes its owner. The secret and the registration token are shown in this answer and never again. People see the app as unverified until the operator vouches for it.',
  access: visitor(),
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
  params: byClient,
  returns: OAuth2ClientRegistration,
  fails: [InvalidClient, RegistrationTokenMissing],
})

export const updateClient = operation({
  id: 'oauth2:clients:oauth2:update_client',
  method: 'PUT',
  path: '/v1/oauth2/register/{client_id}',
  summary: 'Replace the configuration of a client',
  description: 'RFC 7592. A public client that becomes confidential gets a secret, shown in this answer; a confidential one that becomes public loses its own.',
  access: visitor(),
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
  description: 'Every token it holds is refused from the next request on.',
  access: visitor(),
  params: byClient,
  fails: [InvalidClient, RegistrationTokenMissing],
})

export const listClients = operation({
  id: 'oauth2:clients:list',
  method: 'GET',
  path: '/v1/oauth2/',
  summary: 'List your clients',
  access: session(['user:read', 'user:write']),
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
  summary: 'Describe what a client asks for',
  description:
    'The consent page as data: what an authorization request means to the person who is signed in. Authorizing itself happens in the browser, at the authorization endpoint.',
  access: visitor(),
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
  client_secret: z.string().optional().describe('Left out by public clients, and by clients that authenticate with a Basic header.'),
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
  description: 'An access token lives ten days, whichever grant gave it. Refresh tokens rotate: the answer holds the next one.',
  access: protocol(),
  form: true,
  body: z.union([
    resource('AuthorizationCodeTokenRequest', {
      grant_type: z.literal('authorization_code'),
      ...clientCredentials,
      code: z.string(),
      redirect_uri: z.string().max(2083),
      code_verifier: z.string().optional().describe('PKCE: required from public clients, and from everyone who sent a challenge.'),
    }),
    resource('RefreshTokenRequest', { grant_type: z.literal('refresh_token'), ...clientCredentials, refresh_token: z.string(), scope: z.string().optional() }),
    resource('WebTokenRequest', {
      grant_type: z.literal('web').describe('Answered `unsupported_grant_type`: sessions stay in the browser they belong to.'),
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
  description: 'RFC 7009. Ends the token and the others that came from the same authorization. An unknown token is a success too.',
  access: protocol(),
  form: true,
  body: resource('RevokeTokenRequest', tokenToLookUp),
  returns: resource('RevokeTokenResponse', {}),
  fails: [],
})

export const introspectToken = operation({
  id: 'oauth2:introspect_token',
  method: 'POST',
  path: '/v1/oauth2/introspect',
  summary: 'Look a token up',
  description: 'RFC 7662. A client learns about its own tokens only; of any other, and of one that does not work any more, nothing but `{"active": false}`.',
  access: protocol(),
  form: true,
  body: resource('IntrospectTokenRequest', tokenToLookUp),
  returns: resource('IntrospectTokenResponse', {
    active: z.boolean().describe('False comes alone, without the fields below.'),
    client_id: z.string(),
    token_type: z.enum(['access_token', 'refresh_token']),
    scope: z.string(),
    sub_type: SubType,
    sub: z.string(),
    organizations: z.array(z.string()).describe('The organizations that the person restricted the token to; empty when they did not.'),
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
  description: 'With an OAuth access token that holds `openid`; `email` and `profile` add their claims. Also answers to POST, as OpenID Connect asks.',
  access: protocol(['oidc']),
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

export const OAuth2Grant = resource('OAuth2Grant', {
  ...stamps,
  client: OAuth2ClientPublic,
  scopes: z.array(TokenScope),
  organizations: z.array(uuid()).describe('Those the app may act in; empty: all that you belong to, also later ones.'),
  last_authorized_at: timestamp(),
})

export const listGrants = operation({
  id: 'oauth2:grants:list',
  method: 'GET',
  path: '/v1/oauth2/grants',
  summary: 'List the apps that act for you',
  access: session(['user:read', 'user:write']),
  query: z.object({ client_id: filter(z.string()), ...pageQuery, sorting: sorting('OAuth2GrantSortProperty', ['created_at'], ['-created_at']) }),
  returns: page('OAuth2GrantPage', OAuth2Grant),
  fails: [],
})

export const withdrawGrant = operation({
  id: 'oauth2:grants:delete',
  method: 'DELETE',
  path: '/v1/oauth2/grants/{client_id}',
  summary: 'Withdraw what you allowed an app',
  description: 'Its tokens are refused from the next request on, and it has to ask again.',
  access: session('user:write'),
  params: byClient,
  fails: [ResourceNotFound],
})
