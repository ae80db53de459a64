import { Provider, type KoaContextWithOIDC } from 'oidc-provider'
import { newId } from '../../../kernel/ids.ts'
import { derivedToken, newToken, sameText, Secret } from '../../../kernel/secrets.ts'
import { seconds } from '../../../platform/clock.ts'
import { isUnavailable } from '../../../platform/postgres/outage.ts'
import type { Platform } from '../../handlers.ts'
import { findClient } from '../clients/clients.sql.ts'
import { keysMayBeCached } from '../keys/keys.ts'
import { credentialsIn } from '../credentials/credentials.sql.ts'
import { personBehind } from '../sessions/sessions.ts'
import { findUser } from '../sessions/sessions.sql.ts'
import { findFamily, type OAuthTokenKind } from '../grants/oauth.sql.ts'
import { type Payers } from './payers.ts'
import { protocolPaths, type OAuthOptions } from './options.ts'

/**
 * Makes the OAuth library issue our token format, with prefix and checksum. A refresh derives the new tokens from the
 * old refresh token, so that a repeated refresh returns the same tokens.
 */
export const ownTokens = (provider: Provider, { config, hasher, clock }: Platform) => {
  const { environment } = config
  const rotated = () => Provider.ctx?.oidc.entities.RotatedRefreshToken?.jti
  const scope = () => (Provider.ctx?.oidc.params?.scope as string | undefined) ?? ''
  const made = (kind: OAuthTokenKind, follows: string | undefined) =>
    (follows === undefined ? newToken(kind, environment) : derivedToken(kind, environment, hasher, follows)).reveal()
  // A refresh with fewer scopes yields another access token, but the same refresh token.
  const naming = (model: { prototype: object }, name: () => string) => {
    const prototype = model.prototype as { generateTokenId: () => string }
    const original = prototype.generateTokenId
    prototype.generateTokenId = function () {
      // Calls the original method for its side effects only.
      original.call(this)
      return name()
    }
  }
  naming(provider.AccessToken, () => made('oauth_access', rotated() && `${rotated()} ${scope()}`))
  naming(provider.RefreshToken, () => made('oauth_refresh', rotated()))
  naming(provider.AuthorizationCode, () => made('oauth_code', undefined))
  naming(provider.Grant, () => newId(clock.wall()))
  const { prototype } = provider.IdToken as {
    prototype: { issue: (how: { use: string }) => Promise<string>; set: (claim: string, value: unknown) => void; available: { auth_time?: number } }
  }
  const original = prototype.issue
  prototype.issue = function (how) {
    const token = Provider.ctx?.oidc.entities.AccessToken?.jti
    if (how.use === 'idtoken' && token !== undefined) this.set('at_hash', token)
    const since = this.available.auth_time
    if (how.use === 'idtoken' && since !== undefined) this.set('auth_time', since)
    return original.call(this, how)
  }
}

export const ownSecrets = (provider: Provider, { hasher }: Platform, payers: Payers) => {
  // `clientSecret` of the library contains the stored hash, so the presented secret is hashed before the comparison.
  provider.Client.prototype.compareClientSecret = async function (this: { clientId: string; clientSecret?: string }, actual: string) {
    const isRight = hasher.candidates(new Secret(actual)).some((hash) => sameText(hash, this.clientSecret ?? ''))
    if (isRight) await payers.pay(this.clientId)
    return isRight
  }
  // Redirect URIs are compared exactly, including the port, even for localhost.
  provider.Client.prototype.redirectUriAllowed = function (this: { redirectUris?: string[] }, uri: string) {
    return (this.redirectUris ?? []).includes(uri)
  }
}

/** Derives the signed-in user from our own session at every step. The library's session only mirrors our session. */
export const ownSessions = (provider: Provider, { platform, postgres }: Pick<OAuthOptions, 'platform' | 'postgres'>) => {
  const Session = provider.Session as unknown as { get: (ctx: KoaContextWithOIDC) => Promise<Shadow> }
  const original = Session.get
  Session.get = async function (this: typeof Session, ctx) {
    const session = await original.call(this, ctx)
    const behind = await personBehind(credentialsIn(postgres.db), platform, ctx.req.headers.cookie)
    // An operator without a second factor may not change their account, and therefore not authorize apps.
    const person = behind?.scopes.has('user:write') ? behind : undefined
    const loginTs = person && Math.floor(person.credential_created_at.getTime() / 1000)
    if (session.accountId === person?.user_id && session.loginTs === loginTs) return session
    if (session.accountId !== person?.user_id) delete session.authorizations
    if (person) Object.assign(session, { accountId: person.user_id, loginTs })
    else {
      delete session.accountId
      delete session.loginTs
    }
    Object.defineProperty(session, 'touched', { configurable: true, writable: true, value: true })
    return session
  }
}

interface Shadow {
  accountId?: string
  loginTs?: number
  authorizations?: unknown
}

/** Maximum number of query parameters. The protocol defines far fewer. */
const mostParameters = 100

/**
 * Rejects a request with too many query parameters before any of them is read. The library's framework reads them in
 * quadratic time: 8,000 parameters take two seconds.
 */
export const refuseManyParameters = async (ctx: KoaContextWithOIDC, next: () => Promise<void>): Promise<void> => {
  const { querystring } = ctx
  let count = 1
  for (let at = querystring.indexOf('&'); at >= 0 && count <= mostParameters; at = querystring.indexOf('&', at + 1)) count++
  if (count <= mostParameters) return next()
  ctx.status = 400
  ctx.body = { error: 'invalid_request', error_description: `at most ${mostParameters} query parameters are allowed` }
}

/** Answers errors thrown outside the library in the library's format, and keeps our headers. */
export const ownFailures = (log: Platform['log']) => async (ctx: KoaContextWithOIDC, next: () => Promise<void>) => {
  try {
    await next()
  } catch (error) {
    log.error('oauth_failed', { operation: ctx.oidc?.route ?? 'unrouted', error })
    ctx.state.unavailable = isUnavailable(error)
    ctx.status = 500
    ctx.body = { error: 'server_error', error_description: 'an internal error occurred' }
  }
  // The database is restarting or failing over, so the client should retry.
  if (ctx.state.unavailable === true && ctx.status === 500) {
    ctx.status = 503
    ctx.set('retry-after', '1')
    ctx.body = { error: 'temporarily_unavailable', error_description: 'the service is busy or restarting' }
  }
}

/** Adapts requests and responses where our contract differs from the library. */
export const ownWords =
  (postgres: OAuthOptions['postgres'], { config }: Platform) =>
  async (ctx: KoaContextWithOIDC, next: () => Promise<void>) => {
    // Ignores `response_mode`, because authorization responses are always sent in the query string.
    if (ctx.path === protocolPaths.authorization && ctx.query.response_mode !== undefined) {
      const { response_mode: _, ...rest } = ctx.query
      ctx.query = rest
    }
    // A request without a scope gets all scopes that the client registered.
    if (ctx.path === protocolPaths.authorization && ctx.method === 'GET' && ctx.query.scope === undefined && typeof ctx.query.client_id === 'string') {
      const client = await findClient(postgres.db, ctx.query.client_id)
      if (client) ctx.query = { ...ctx.query, scope: client.scopes.join(' ') }
    }
    await next()
    const body = ctx.body as Record<string, unknown>
    // Moves errors from the fragment of the redirect URL to its query string.
    const [address = '', fragment] = (ctx.response.headers.location ?? '').split('#')
    if (fragment !== undefined) ctx.set('location', `${address}${address.includes('?') ? '&' : '?'}${fragment}`)
    switch (ctx.oidc?.route) {
      case 'discovery':
        body.authorization_endpoint = new URL(protocolPaths.authorization, config.auth_url).href
        body.response_modes_supported = ['query']
        body.grant_types_supported = ['authorization_code', 'refresh_token']
        ctx.set('cache-control', 'public, max-age=300')
        return
      case 'jwks':
        ctx.set('cache-control', `public, max-age=${keysMayBeCached / seconds}`)
        return
      case 'revocation':
        if (ctx.status === 200) ctx.body = {}
        return
      case 'introspection': {
        const token = ctx.oidc.entities.AccessToken ?? ctx.oidc.entities.RefreshToken
        if (ctx.status !== 200 || body.active !== true || !token?.accountId || !token.clientId) return
        const family = token.grantId === undefined ? undefined : await findFamily(postgres.db, token.grantId)
        const user = await findUser(postgres.db, token.accountId)
        ctx.body =
          family && user && !user.blocked_at
            ? {
                active: true,
                client_id: token.clientId,
                token_type: token.kind === 'RefreshToken' ? 'refresh_token' : 'access_token',
                scope: body.scope ?? '',
                sub_type: 'user',
                sub: token.accountId,
                organizations: family.organizations ?? [],
                aud: token.clientId,
                iss: config.public_url.origin,
                exp: body.exp,
                iat: body.iat,
              }
            : { active: false }
        return
      }
      case 'userinfo':
        // Adds the reason of a rejection as `detail`, like every other rejection of a bearer token by the API.
        if (ctx.status >= 400 && typeof body.error_description === 'string') ctx.body = { ...body, detail: body.error_description }
        return
      case 'authorization':
      case 'resume':
        // The redirect URL contains the authorization code, so it must not leak in the Referer header.
        ctx.set('referrer-policy', 'no-referrer')
    }
  }
