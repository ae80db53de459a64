import type { IncomingMessage, ServerResponse } from 'node:http'
import { isScope, locales, scopes as everyScope, type Scope } from '@bursar/contract'
import { errors, interactionPolicy, Provider, type Adapter, type Configuration, type KoaContextWithOIDC } from 'oidc-provider'
import { newId } from '../../../kernel/ids.ts'
import { derivedToken, newToken, sameText, Secret } from '../../../kernel/secrets.ts'
import { days, seconds } from '../../../platform/clock.ts'
import { isUnavailable, type Postgres } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { findClient } from '../clients/clients.sql.ts'
import { findGrant, membershipsOf, touchGrant } from '../grants/grants.sql.ts'
import { ensureKeys, keysMayBeCached, openKeys } from '../keys/keys.ts'
import { personBehind } from '../sessions/sessions.ts'
import { findUser } from '../sessions/sessions.sql.ts'
import { adapterOf, lifetimes, type Arrival } from './adapters.ts'
import { findVisit, type OAuthTokenKind } from './oauth.sql.ts'

/** The addresses of the protocol. What stands here is answered by the library, in its own words. */
export const protocolPaths = {
  authorization: '/oauth2/authorize',
  token: '/v1/oauth2/token',
  userinfo: '/v1/oauth2/userinfo',
  introspection: '/v1/oauth2/introspect',
  revocation: '/v1/oauth2/revoke',
  jwks: '/.well-known/jwks.json',
} as const

export interface OAuthOptions {
  readonly platform: Platform
  readonly postgres: Pick<Postgres, 'db' | 'transact'>
  /** Shows a person what went wrong before the request could be trusted: never a redirect. */
  readonly showProblem: (
    request: IncomingMessage,
    problem: { error: string; description: string; request_id: string | null },
  ) => { html: string; headers: Record<string, string> }
}

/** The protocol, running on our tables: every hash, expiry and single use is decided here and not by the library. */
export const openOAuth = async (options: OAuthOptions) => {
  const { platform, postgres } = options
  const { config, clock, log } = platform
  await postgres.transact((tx) => ensureKeys(tx, platform))
  const arrivals = new WeakMap<IncomingMessage, Arrival>()
  const model = (name: string) => adapterOf(name, options, (request) => arrivals.get(request) ?? { at: clock.wall(), from: '' })

  let keys = await openKeys(postgres.db, platform)
  let current = build(options, keys, model)
  const names = (list: readonly Record<string, string>[]) => list.map(({ kid }) => kid).join()
  /** The library takes its keys once: when they change, a new one takes over for the requests to come. */
  const refreshKeys = async () => {
    const found = await openKeys(postgres.db, platform)
    if (names(found) === names(keys)) return
    keys = found
    current = build(options, keys, model)
  }
  const watching = setInterval(() => void refreshKeys().catch((error: unknown) => log.warn('keys_not_read', { error })), 5 * seconds)
  watching.unref()

  return {
    /** Answers a request of the protocol. Which host it came to is ours to say, not the request's. */
    answer: async (request: IncomingMessage, response: ServerResponse, arrival: Arrival): Promise<void> => {
      arrivals.set(request, arrival)
      await current.callback()(direct(config, request), response)
    },
    /** What the browser is in the middle of, if it is. */
    interaction: async (request: IncomingMessage, response: ServerResponse) => {
      try {
        return await current.interactionDetails(direct(config, request), response)
      } catch (error) {
        if (error instanceof errors.SessionNotFound) return undefined
        throw error
      }
    },
    /** The app behind an interaction, which nobody can point at but the browser that is in it: its id is random and lives an hour. */
    waitingApp: async (uid: string): Promise<{ name: string; redirect_uri: string; locales: string } | undefined> => {
      const visit = await findVisit(postgres.db, 'Interaction', platform.hasher.candidates(new Secret(uid)), clock.wall())
      const { client_id = '', redirect_uri = '', ui_locales = '' } = (visit?.payload as { params?: Record<string, string> } | undefined)?.params ?? {}
      const client = await findClient(postgres.db, client_id)
      return client && { name: client.client_name, redirect_uri, locales: ui_locales }
    },
    /** Notes how the person decided; the address to go on with. */
    decide: (request: IncomingMessage, response: ServerResponse, result: Parameters<Provider['interactionResult']>[2]): Promise<string> =>
      current.interactionResult(direct(config, request), response, result, { mergeWithLastSubmission: true }),
    /** A new authorization within what the person allowed. */
    openFamily: (client_id: string, user_id: string, scopes: readonly Scope[]): Promise<string> => openFamily(current, client_id, user_id, scopes),
    refreshKeys,
    close: () => clearInterval(watching),
  }
}
export type OAuth = Awaited<ReturnType<typeof openOAuth>>
export type Interaction = NonNullable<Awaited<ReturnType<OAuth['interaction']>>>

/** Proxies in front of us are believed as far as the configuration says, which is elsewhere: here the public addresses stand. */
const direct = (config: Platform['config'], request: IncomingMessage): IncomingMessage => {
  // A request line may name a host of its own, and the library would build its addresses on it.
  request.url = (request.url ?? '/').replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '') || '/'
  const page = request.url.startsWith(protocolPaths.authorization) || request.url.startsWith('/oauth2/interaction')
  const { host, protocol } = page ? config.auth_url : config.public_url
  request.headers['x-forwarded-host'] = host
  request.headers['x-forwarded-proto'] = protocol.slice(0, -1)
  return request
}

const openFamily = async (provider: Provider, clientId: string, accountId: string, scopes: readonly string[]): Promise<string> => {
  const grant = new provider.Grant({ clientId, accountId })
  grant.addOIDCScope(scopes.join(' '))
  return grant.save()
}

const build = ({ platform, postgres, showProblem }: OAuthOptions, keys: Record<string, string>[], adapter: (name: string) => Adapter): Provider => {
  const { config, hasher, log, clock } = platform
  const { environment } = config
  const secure = config.auth_url.protocol === 'https:'
  const cookie = { signed: true, httpOnly: true, sameSite: 'lax', secure } as const
  const named = (what: string) => `${secure ? '__Secure-' : ''}bursar_${environment}_${what}`

  const configuration: Configuration = {
    adapter,
    routes: protocolPaths,
    jwks: { keys },
    cookies: {
      keys: hasher.candidates(new Secret('cookies of the protocol')),
      names: { session: named('visit'), interaction: named('interaction'), resume: named('resume') },
      long: cookie,
      short: cookie,
    },
    ttl: {
      AccessToken: lifetimes.access / seconds,
      AuthorizationCode: lifetimes.code / seconds,
      IdToken: 3600,
      RefreshToken: lifetimes.refresh / seconds,
      Grant: lifetimes.family / seconds,
      Interaction: lifetimes.interaction / seconds,
      Session: (31 * days) / seconds,
    },
    scopes: [...everyScope],
    extraParams: ['sub_type'],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['picture', 'updated_at'] },
    responseTypes: ['code'],
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'none'],
    enabledJWA: { idTokenSigningAlgValues: ['RS256'] },
    conformIdTokenClaims: false,
    allowOmittingSingleRegisteredRedirectUri: false,
    pkce: { required: (_, client) => client.clientAuthMethod === 'none' },
    features: {
      devInteractions: { enabled: false },
      userinfo: { enabled: true },
      rpInitiatedLogout: { enabled: false },
      // Not promised, so not there.
      pushedAuthorizationRequests: { enabled: false },
      dPoP: { enabled: false },
      introspection: { enabled: true, allowedPolicy: async (_, client, token) => token.clientId === client.clientId },
      revocation: { enabled: true, allowedPolicy: async (_, client, token) => token.clientId === client.clientId },
    },
    issueRefreshToken: async (_, client) => client.grantTypeAllowed('refresh_token'),
    expiresWithSession: async () => false,
    rotateRefreshToken: true,
    revokeGrantPolicy: async () => true,
    clientBasedCORS: (_, origin, client) => (client.redirectUris ?? []).some((uri) => URL.parse(uri)?.origin === origin),
    findAccount: async (_, sub) => {
      const user = await findUser(postgres.db, sub)
      if (!user || user.blocked_at) return undefined
      return {
        accountId: user.id,
        claims: async () => ({
          sub: user.id,
          email: user.email,
          email_verified: user.email_verified,
          ...(user.avatar_url === null ? {} : { picture: user.avatar_url }),
          updated_at: Math.floor((user.modified_at ?? user.created_at).getTime() / 1000),
        }),
      }
    },
    loadExistingGrant: async (ctx) => {
      const { client, session, result, provider } = ctx.oidc
      const decided = result?.consent?.grantId
      if (decided) return provider.Grant.find(decided)
      if (!client || !session?.accountId) return undefined
      const allowed = await findGrant(postgres.db, client.clientId, session.accountId)
      if (!allowed) return undefined
      const wanted = [...ctx.oidc.requestParamScopes]
      if (wanted.some((scope) => !(allowed.scopes as readonly string[]).includes(scope))) {
        // Not all of it: what was allowed before is not asked again.
        const partly = new provider.Grant({ clientId: client.clientId, accountId: session.accountId })
        partly.addOIDCScope(allowed.scopes.join(' '))
        return partly
      }
      // Silently, and within the same bounds: the choice of organizations is kept with what was allowed.
      await postgres.transact((tx) => touchGrant(tx, client.clientId, session.accountId!, clock.wall()))
      return provider.Grant.find(await openFamily(provider, client.clientId, session.accountId, wanted))
    },
    interactions: { policy: policyOf(postgres), url: (_, interaction) => `/oauth2/interaction/${interaction.uid}` },
    renderError: (ctx, out) => {
      const received = out.error === 'invalid_redirect_uri' ? ` Received: ${String(ctx.query.redirect_uri)}` : ''
      const description = `${out.error_description ?? ''}${received}`
      if (ctx.accepts('html', 'json') !== 'html') {
        ctx.body = out
        return
      }
      const { html, headers } = showProblem(ctx.req, { error: out.error, description, request_id: ctx.response.get('x-request-id') || null })
      const { 'set-cookie': cookie, ...rest } = headers
      ctx.set(rest)
      if (cookie !== undefined) ctx.append('set-cookie', cookie)
      ctx.type = 'text/html; charset=utf-8'
      ctx.body = html
    },
    discovery: {
      service_documentation: new URL('/docs', config.public_url).href,
      registration_endpoint: new URL('/v1/oauth2/register', config.public_url).href,
      revocation_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
      introspection_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
      ui_locales_supported: [...locales],
    },
  }

  const provider = new Provider(config.public_url.origin, configuration)
  provider.proxy = true
  ;(provider as NodeJS.EventEmitter).on('error', (error: Error) => log.error('oauth_failed', { operation: 'unrouted', error }))
  provider.on('server_error', (ctx: KoaContextWithOIDC, error: Error) => {
    if (isUnavailable(error)) ctx.state.unavailable = true
    log.error('oauth_failed', { operation: ctx.oidc?.route ?? 'unrouted', error })
  })
  ownTokens(provider, platform)
  ownSecrets(provider, platform)
  ownSessions(provider, { platform, postgres })
  provider.use(ownFailures(log))
  provider.use(ownWords(postgres, platform))
  return provider
}

/**
 * When a person must be asked: on top of the library's reasons, whenever a public app comes whose address anyone on the
 * same device could have taken, and when nothing is left of the organizations that were chosen.
 */
const policyOf = (postgres: OAuthOptions['postgres']) => {
  const { Check, base } = interactionPolicy
  const policy = base()
  // First of all, whoever is or is not signed in: what a request says must mean something here.
  policy.get('login')!.checks.add(
    new Check('unknown_words', 'the request cannot be understood', 'invalid_request', (ctx) => {
      // The request as it came: the library has already dropped what it does not know.
      const asked = typeof ctx.query.scope === 'string' ? ctx.query.scope.split(' ') : []
      const unknown = asked.find((scope) => !isScope(scope))
      // Better said than passed over: a scope that does not exist is a mistake of the client's.
      if (unknown !== undefined) throw new errors.InvalidScope(`scope ${unknown} does not exist`, unknown)
      const sub_type = ctx.oidc.params?.sub_type
      if (sub_type !== undefined && sub_type !== 'user' && sub_type !== 'organization') throw new errors.InvalidRequest('sub_type must be user or organization')
      return Check.NO_NEED_TO_PROMPT
    }),
    0,
  )
  const consent = policy.get('consent')!
  consent.checks.remove('native_client_prompt')
  consent.checks.add(
    new Check('unproved_app', 'apps that cannot prove who they are ask each time', 'interaction_required', async (ctx) => {
      const { client, result, params } = ctx.oidc
      if (result?.consent || client?.clientAuthMethod !== 'none' || String(params?.redirect_uri).startsWith('https:')) return Check.NO_NEED_TO_PROMPT
      return (await findClient(postgres.db, client.clientId))?.verified_at ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT
    }),
  )
  consent.checks.add(
    new Check('one_wanted', 'exactly one organization has to be chosen', 'interaction_required', async (ctx) => {
      const { client, session, result, params } = ctx.oidc
      if (result?.consent || !client || !session?.accountId) return Check.NO_NEED_TO_PROMPT
      if ((params?.sub_type ?? (await findClient(postgres.db, client.clientId))?.default_sub_type) !== 'organization') return Check.NO_NEED_TO_PROMPT
      const grant = await findGrant(postgres.db, client.clientId, session.accountId)
      return grant?.organizations?.length === 1 ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT
    }),
  )
  consent.checks.add(
    new Check('nowhere_left', 'the person has left every organization they chose', 'interaction_required', async (ctx) => {
      const { client, session, result } = ctx.oidc
      if (result?.consent || !client || !session?.accountId) return Check.NO_NEED_TO_PROMPT
      const grant = await findGrant(postgres.db, client.clientId, session.accountId)
      if (!grant?.organizations) return Check.NO_NEED_TO_PROMPT
      const there = await membershipsOf(postgres.db, session.accountId)
      return grant.organizations.some((id) => there.includes(id)) ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT
    }),
  )
  return policy
}

/** Our tokens in place of the library's: with prefix and checksum, and after a rotation the same for the same old token. */
const ownTokens = (provider: Provider, { config, hasher, clock }: Platform) => {
  const { environment } = config
  const rotated = () => Provider.ctx?.oidc.entities.RotatedRefreshToken?.jti
  const scope = () => (Provider.ctx?.oidc.params?.scope as string | undefined) ?? ''
  const made = (kind: OAuthTokenKind, follows: string | undefined) =>
    (follows === undefined ? newToken(kind, environment) : derivedToken(kind, environment, hasher, follows)).reveal()
  // Asked for less, the answer is another access token; the refresh token is the same.
  const naming = (model: { prototype: object }, name: () => string) => {
    const prototype = model.prototype as { generateTokenId: () => string }
    const original = prototype.generateTokenId
    prototype.generateTokenId = function () {
      // It does more than make up a name.
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

const ownSecrets = (provider: Provider, { hasher }: Platform) => {
  // What the library believes to be the secret is the stored hash.
  provider.Client.prototype.compareClientSecret = function (this: { clientSecret?: string }, actual: string) {
    return hasher.candidates(new Secret(actual)).some((hash) => sameText(hash, this.clientSecret ?? ''))
  }
  // Character by character, also on this machine: a port is part of the address.
  provider.Client.prototype.redirectUriAllowed = function (this: { redirectUris?: string[] }, uri: string) {
    return (this.redirectUris ?? []).includes(uri)
  }
}

/** Who is signed in is what our own session says, at every step: the library's session is a shadow of it. */
const ownSessions = (provider: Provider, { platform, postgres }: Pick<OAuthOptions, 'platform' | 'postgres'>) => {
  const Session = provider.Session as unknown as { get: (ctx: KoaContextWithOIDC) => Promise<Shadow> }
  const original = Session.get
  Session.get = async function (this: typeof Session, ctx) {
    const session = await original.call(this, ctx)
    const behind = await personBehind(postgres.db, platform, ctx.req.headers.cookie)
    // Whoever may not change their own account may not let others act for them: an operator without a second factor.
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

/** What breaks around the library is answered like what breaks in it, and our headers stay. */
const ownFailures = (log: Platform['log']) => async (ctx: KoaContextWithOIDC, next: () => Promise<void>) => {
  try {
    await next()
  } catch (error) {
    log.error('oauth_failed', { operation: ctx.oidc?.route ?? 'unrouted', error })
    ctx.state.unavailable = isUnavailable(error)
    ctx.status = 500
    ctx.body = { error: 'server_error', error_description: 'something went wrong on our side' }
  }
  // The database is restarting, or moving: worth another try.
  if (ctx.state.unavailable === true && ctx.status === 500) {
    ctx.status = 503
    ctx.set('retry-after', '1')
    ctx.body = { error: 'temporarily_unavailable', error_description: 'the service is busy or restarting' }
  }
}

/** Where our contract says more, or other, than the library does. */
const ownWords =
  (postgres: OAuthOptions['postgres'], { config }: Platform) =>
  async (ctx: KoaContextWithOIDC, next: () => Promise<void>) => {
    // Answers come in the query, however they are asked for.
    if (ctx.path === protocolPaths.authorization && ctx.query.response_mode !== undefined) {
      const { response_mode: _, ...rest } = ctx.query
      ctx.query = rest
    }
    // No scope asked for means all that the client registered.
    if (ctx.path === protocolPaths.authorization && ctx.method === 'GET' && ctx.query.scope === undefined && typeof ctx.query.client_id === 'string') {
      const client = await findClient(postgres.db, ctx.query.client_id)
      if (client) ctx.query = { ...ctx.query, scope: client.scopes.join(' ') }
    }
    await next()
    const body = ctx.body as Record<string, unknown>
    // Whatever was wrong with a request, the answer is where every answer is: in the query.
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
        const allowed = await findGrant(postgres.db, token.clientId, token.accountId)
        const user = await findUser(postgres.db, token.accountId)
        ctx.body =
          allowed && user && !user.blocked_at
            ? {
                active: true,
                client_id: token.clientId,
                token_type: token.kind === 'RefreshToken' ? 'refresh_token' : 'access_token',
                scope: body.scope ?? '',
                sub_type: 'user',
                sub: token.accountId,
                organizations: allowed.organizations ?? [],
                aud: token.clientId,
                iss: config.public_url.origin,
                exp: body.exp,
                iat: body.iat,
              }
            : { active: false }
        return
      }
      case 'authorization':
      case 'resume':
        // The address of the answer holds the code: it goes to the browser, and nowhere else.
        ctx.set('referrer-policy', 'no-referrer')
    }
  }
