import { createHash, randomBytes } from 'node:crypto'
import { registerClient, scopes, type Scope } from '@bursar/contract'
import { newId } from '../../src/kernel/ids.ts'
import { newToken, type Secret } from '../../src/kernel/secrets.ts'
import { allowApp } from '../../src/modules/identity/grants/grants.ts'
import { insertFamily, storeToken } from '../../src/modules/identity/grants/oauth.sql.ts'
import { days, later } from '../../src/platform/clock.ts'
import { exchange, type Exchange, type World } from './world.ts'
import { noteSecrets } from './secrets.ts'

export const callback = 'https://app.example/callback'

/** Opens a minimal HTTP client that acts as a browser. It keeps cookies, follows redirects on our own host and submits forms. */
export const openVisitor = (world: World, cookie?: string) => {
  const jar = new Map<string, { value: string; path: string }>()
  if (cookie) jar.set(cookie.split('=')[0]!, { value: cookie.slice(cookie.indexOf('=') + 1), path: '/' })
  const { origin } = world.config.auth_url

  const once = async (method: string, path: string, form?: Record<string, string | string[]>, headers: Record<string, string> = {}): Promise<Exchange> => {
    const cookies = [...jar].filter(([, one]) => path.split('?')[0]!.startsWith(one.path)).map(([name, { value }]) => `${name}=${value}`)
    const body =
      form && new URLSearchParams(Object.entries(form).flatMap(([name, value]) => [value].flat().map((one): [string, string] => [name, one]))).toString()
    const answer = await exchange(
      world.port,
      method,
      path,
      {
        accept: 'text/html',
        'sec-fetch-mode': 'navigate',
        ...(cookies.length > 0 ? { cookie: cookies.join('; ') } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded', origin }),
        ...headers,
      },
      body,
    )
    for (const line of answer.headers.getSetCookie()) {
      const [pair = '', ...rest] = line.split('; ')
      const at = pair.indexOf('=')
      const place = /path=([^;]*)/i.exec(rest.join('; '))?.[1] ?? '/'
      if (/max-age=0|expires=thu, 01 jan 1970/i.test(line)) jar.delete(pair.slice(0, at))
      else jar.set(pair.slice(0, at), { value: pair.slice(at + 1), path: place })
    }
    return answer
  }

  /** Follows redirects as long as they stay on our own host. */
  const follow = async (answer: Exchange): Promise<{ at: string; answer: Exchange }> => {
    let now = answer
    for (let hops = 0; hops < 10; hops++) {
      const location = now.headers.get('location')
      if (now.status !== 303 && now.status !== 302) return { at: '', answer: now }
      const to = new URL(location!, origin)
      noteSecrets(to.href)
      if (to.origin !== origin) return { at: to.href, answer: now }
      const next = await once('GET', to.pathname + to.search)
      if (next.status === 200 || next.status >= 400) return { at: to.pathname + to.search, answer: next }
      now = next
    }
    throw new Error('sent round in circles')
  }

  const field = (html: string, name: string) => new RegExp(`name="${name}" value="([^"]*)"`).exec(html)?.[1] ?? ''

  return {
    jar,
    once,
    get: async (path: string, headers?: Record<string, string>) => follow(await once('GET', path, undefined, headers)),
    post: async (path: string, form: Record<string, string | string[]>, headers?: Record<string, string>) => follow(await once('POST', path, form, headers)),
    field,
    /**
     * Visits the authorization endpoint and answers the consent page. Returns in `at` the callback URL or a path of
     * ours, or '' without a redirect.
     */
    authorize: async (query: Record<string, string>, decide: { organizations?: string[]; all?: boolean; deny?: boolean } = { all: true }) => {
      const arrived = await follow(await once('GET', `/oauth2/authorize?${new URLSearchParams(query).toString()}`))
      if (!arrived.at.startsWith('/oauth2/interaction/') || arrived.answer.status !== 200) return { ...arrived, asked: false }
      const csrf = field(arrived.answer.text, 'csrf')
      const form = decide.deny
        ? { csrf, action: 'deny' }
        : { csrf, action: 'allow', reach: decide.all ? 'all' : 'chosen', organizations: decide.organizations ?? [] }
      return { ...(await follow(await once('POST', arrived.at, form))), asked: true, page: arrived.answer.text }
    },
  }
}
export type Visitor = ReturnType<typeof openVisitor>

export const pkce = () => {
  const code_verifier = randomBytes(32).toString('base64url')
  return { code_verifier, code_challenge: createHash('sha256').update(code_verifier).digest('base64url'), code_challenge_method: 'S256' }
}

/** Registers an OAuth client through the public registration endpoint. Returns functions that send its requests. */
export const openApp = async (world: World, wish: Record<string, unknown> = {}, cookie?: string) => {
  const api = world.client(cookie === undefined ? {} : { cookie })
  const registered = await api.call(registerClient, { body: { client_name: 'Ledgerly', redirect_uris: [callback], ...wish } })
  const app = registered as unknown as { client_id: string; client_secret?: string; registration_access_token: string; redirect_uris: string[] }
  const credentials = (): Record<string, string> => ({
    client_id: app.client_id,
    ...(app.client_secret === undefined ? {} : { client_secret: app.client_secret }),
  })

  const form = async (path: string, fields: Record<string, string>, headers: Record<string, string> = {}) => {
    const answer = await exchange(
      world.port,
      'POST',
      path,
      { 'content-type': 'application/x-www-form-urlencoded', ...headers },
      new URLSearchParams(fields).toString(),
    )
    return { status: answer.status, headers: answer.headers, body: (answer.text === '' ? {} : JSON.parse(answer.text)) as Record<string, unknown> }
  }
  const ask = (more: Record<string, string> = {}): Record<string, string> => ({
    response_type: 'code',
    client_id: app.client_id,
    redirect_uri: app.redirect_uris[0]!,
    scope: 'openid email organizations:read products:read',
    state: 'the state',
    ...more,
  })
  const token = (fields: Record<string, string>) => form('/v1/oauth2/token', { ...credentials(), ...fields })
  const redeem = (code: string, more: Record<string, string> = {}) =>
    token({ grant_type: 'authorization_code', code, redirect_uri: app.redirect_uris[0]!, ...more })
  const codeOf = (address: string): string => {
    const code = new URL(address).searchParams.get('code')
    if (code === null) throw new Error(`no code in ${address}`)
    return code
  }

  return {
    ...app,
    credentials,
    form,
    ask,
    token,
    redeem,
    codeOf,
    refresh: (refresh_token: string, more: Record<string, string> = {}) => token({ grant_type: 'refresh_token', refresh_token, ...more }),
    introspect: (value: string) => form('/v1/oauth2/introspect', { ...credentials(), token: value }),
    revoke: (value: string) => form('/v1/oauth2/revoke', { ...credentials(), token: value }),
    /** Gets a new authorization code for the visitor's signed-in person. */
    code: async (visitor: Visitor, more: Record<string, string> = {}, decide?: { organizations?: string[]; all?: boolean }) =>
      codeOf((await visitor.authorize(ask(more), decide)).at),
    /** Runs the whole flow from authorization to tokens. */
    tokens: async (visitor: Visitor, more: Record<string, string> = {}, decide?: { organizations?: string[]; all?: boolean }) => {
      const proof = pkce()
      const { code_verifier, ...challenge } = proof
      const { at } = await visitor.authorize(ask({ ...challenge, ...more }), decide)
      const answer = await redeem(codeOf(at), { code_verifier })
      if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
      return answer.body as { access_token: string; refresh_token: string; id_token: string; scope: string; expires_in: number; token_type: string }
    },
  }
}
export type App = Awaited<ReturnType<typeof openApp>>

/** Creates a person with a signed-in browser and two organizations. */
export const openPerson = async (world: World) => {
  const person = await world.person()
  const here = await world.organization({ owner: person.id })
  const there = await world.organization({ owner: person.id })
  const cookie = await person.cookie()
  return { person, here, there, cookie, visitor: openVisitor(world, cookie) }
}

/**
 * Creates an OAuth app to which a person has granted all scopes, for some or all organizations. Returns a function that
 * issues access tokens with given scopes, as the OAuth endpoints would.
 */
export const openGrant = async (world: World, user_id: string, organizations: readonly string[] | null) => {
  const app = await openApp(world)
  const { platform, transact } = world
  await transact((tx) => allowApp(tx, { client_id: app.client_id, user_id, scopes: [...scopes], organizations }))
  return async (held: readonly Scope[]): Promise<Secret> => {
    const secret = newToken('oauth_access', platform.config.environment)
    noteSecrets(secret.reveal())
    await transact(async (tx) => {
      const wall = tx.clock.wall()
      const family = { id: newId(wall), client_id: app.client_id, user_id, created_at: wall, scopes: [...held] }
      await insertFamily(tx, family)
      const rest = { kind: 'oauth_access' as const, parent_id: null, consumed_at: null, consumed_from: null }
      const payload = { clientId: app.client_id, accountId: user_id, kind: 'AccessToken' }
      await storeToken(tx, platform.hasher, secret, {
        ...rest,
        id: newId(wall),
        family_id: family.id,
        created_at: wall,
        expires_at: later(wall, 10 * days),
        scopes: [...held],
        payload,
      })
    })
    return secret
  }
}
