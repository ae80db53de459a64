import type { IncomingMessage, ServerResponse } from 'node:http'
import { isScope, scopes as everyScope, type Scope } from '@bursar/contract'
import { locales } from '@bursar/views'
import { errors, interactionPolicy, Provider, type Adapter, type Configuration, type KoaContextWithOIDC } from 'oidc-provider'
import { Secret } from '../../../kernel/secrets.ts'
import { days, seconds } from '../../../platform/clock.ts'
import { isUnavailable } from '../../../platform/postgres/outage.ts'
import type { Platform } from '../../handlers.ts'
import { findClient } from '../clients/clients.sql.ts'
import { findGrant, membershipsOf, touchGrant } from '../grants/grants.sql.ts'
import { ensureKeys, openKeys } from '../keys/keys.ts'
import { findUser } from '../sessions/sessions.sql.ts'
import { adapterOf, lifetimes, type Arrival } from './adapters.ts'
import { findVisit } from '../grants/oauth.sql.ts'
import { openPayers, type Payers } from './payers.ts'
import { documentationPath, protocolPaths, type OAuthOptions } from './options.ts'
import { ownTokens, ownSecrets, ownSessions, ownFailures, ownWords, refuseManyParameters } from './overrides.ts'

/** Runs the OAuth library on our tables. Hashing, expiry and single use of tokens are implemented in our adapters, not by the library. */
export const openOAuth = async (options: OAuthOptions) => {
  const { platform, postgres } = options
  const { config, clock, log } = platform
  await postgres.transact((tx) => ensureKeys(tx, platform))
  const arrivals = new WeakMap<IncomingMessage, Arrival>()
  const payers = openPayers((request) => arrivals.get(request))
  const model = (name: string) => adapterOf(name, options, (request) => arrivals.get(request) ?? { at: clock.wall(), from: '' }, payers.pay)

  let keys = await openKeys(postgres.db, platform)
  let current = build(options, keys, model, payers)
  const names = (list: readonly Record<string, string>[]) => list.map(({ kid }) => kid).join()
  /** Rebuilds the provider when the keys change, because the library reads its keys only once. Later requests use the new provider. */
  const refreshKeys = async () => {
    const found = await openKeys(postgres.db, platform)
    if (names(found) === names(keys)) return
    keys = found
    current = build(options, keys, model, payers)
  }
  const watching = setInterval(() => void refreshKeys().catch((error: unknown) => log.warn('keys_not_read', { error })), 5 * seconds)
  watching.unref()

  return {
    /** Answers a protocol request. The host is taken from the configuration, not from the request. */
    answer: async (request: IncomingMessage, response: ServerResponse, arrival: Arrival): Promise<void> => {
      arrivals.set(request, arrival)
      await current.callback()(direct(config, request), response)
    },
    /** Returns the pending sign-in or consent interaction of the browser. Returns undefined if there is none. */
    interaction: async (request: IncomingMessage, response: ServerResponse) => {
      try {
        return await current.interactionDetails(direct(config, request), response)
      } catch (error) {
        if (error instanceof errors.SessionNotFound) return undefined
        throw error
      }
    },
    /** Returns the app that an interaction belongs to. The interaction's id is random and valid for an hour, so only its own browser knows the id. */
    waitingApp: async (uid: string): Promise<{ name: string; redirect_uri: string; locales: string } | undefined> => {
      const visit = await findVisit(postgres.db, 'Interaction', platform.hasher.candidates(new Secret(uid)), clock.wall())
      const { client_id = '', redirect_uri = '', ui_locales = '' } = (visit?.payload as { params?: Record<string, string> } | undefined)?.params ?? {}
      const client = await findClient(postgres.db, client_id)
      return client && { name: client.client_name, redirect_uri, locales: ui_locales }
    },
    /** Stores the user's decision on the consent page. Returns the URL at which the browser continues. */
    decide: (request: IncomingMessage, response: ServerResponse, result: Parameters<Provider['interactionResult']>[2]): Promise<string> =>
      current.interactionResult(direct(config, request), response, result, { mergeWithLastSubmission: true }),
    /** Creates an authorization within the user's grant. */
    openFamily: (client_id: string, user_id: string, scopes: readonly Scope[]): Promise<string> => openFamily(current, client_id, user_id, scopes),
    refreshKeys,
    close: () => clearInterval(watching),
  }
}

export type OAuth = Awaited<ReturnType<typeof openOAuth>>

export type Interaction = NonNullable<Awaited<ReturnType<OAuth['interaction']>>>

/** Sets the public host and protocol of the request from the configuration. Proxy headers of the request are overwritten. */
const direct = (config: Platform['config'], request: IncomingMessage): IncomingMessage => {
  // Removes the host of an absolute URL in the request line. Otherwise the library would build its URLs with that host.
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

const build = (
  { platform, postgres, showProblem }: OAuthOptions,
  keys: Record<string, string>[],
  adapter: (name: string) => Adapter,
  payers: Payers,
): Provider => {
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
      // The contract contains neither pushed authorization requests nor DPoP.
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
        // The user has granted only some of the requested scopes. Returns a grant of these scopes, so that the library asks for consent to the missing ones.
        const partly = new provider.Grant({ clientId: client.clientId, accountId: session.accountId })
        partly.addOIDCScope(allowed.scopes.join(' '))
        return partly
      }
      // Authorizes without a prompt. The choice of organizations is stored with the grant, so it still applies.
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
      service_documentation: new URL(documentationPath, config.public_url).href,
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
  ownSecrets(provider, platform, payers)
  ownSessions(provider, { platform, postgres })
  provider.use(payers.middleware)
  provider.use(refuseManyParameters)
  provider.use(ownFailures(log))
  provider.use(ownWords(postgres, platform))
  return provider
}

/**
 * Returns the policy that decides when the user is prompted. It extends the library's policy. It prompts for an
 * unverified public app without an https redirect URI. Another app on the device could intercept such a redirect. It
 * also prompts if an app needs exactly one organization, or if the user has left all chosen organizations.
 */
const policyOf = (postgres: OAuthOptions['postgres']) => {
  const { Check, base } = interactionPolicy
  const policy = base()
  // Rejects unknown scopes and parameter values. This check runs first, whether or not the user is signed in.
  policy.get('login')!.checks.add(
    new Check('unknown_words', 'the request is not valid', 'invalid_request', (ctx) => {
      // Reads the original query, because the library has already dropped unknown scopes.
      const asked = typeof ctx.query.scope === 'string' ? ctx.query.scope.split(' ') : []
      const unknown = asked.find((scope) => !isScope(scope))
      // Reports an unknown scope to the client instead of ignoring it.
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
    new Check('unproved_app', 'public apps ask for consent each time', 'interaction_required', async (ctx) => {
      const { client, result, params } = ctx.oidc
      if (result?.consent || client?.clientAuthMethod !== 'none' || String(params?.redirect_uri).startsWith('https:')) return Check.NO_NEED_TO_PROMPT
      return (await findClient(postgres.db, client.clientId))?.verified_at ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT
    }),
  )
  consent.checks.add(
    new Check('one_wanted', 'choose exactly one organization', 'interaction_required', async (ctx) => {
      const { client, session, result, params } = ctx.oidc
      if (result?.consent || !client || !session?.accountId) return Check.NO_NEED_TO_PROMPT
      if ((params?.sub_type ?? (await findClient(postgres.db, client.clientId))?.default_sub_type) !== 'organization') return Check.NO_NEED_TO_PROMPT
      const grant = await findGrant(postgres.db, client.clientId, session.accountId)
      return grant?.organizations?.length === 1 ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT
    }),
  )
  consent.checks.add(
    new Check('nowhere_left', 'the person no longer belongs to any chosen organization', 'interaction_required', async (ctx) => {
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
