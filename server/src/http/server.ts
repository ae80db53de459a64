import { context as otel, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { BadRequest, defaultVersion, InvalidRequest, MethodNotAllowed, RouteNotFound, successStatus, versions, type Operation } from '@bursar/contract'
import { document } from '@bursar/contract/openapi'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { anonymous, isForeseeable, lookAhead, organizationIds, reachOf, type Actor, type Finding } from '../kernel/actors.ts'
import { newId } from '../kernel/ids.ts'
import {
  isRefusal,
  pending,
  type Call,
  type Gateways,
  type Implementation,
  type Page,
  type Platform,
  type Readiness,
  type Refusal,
} from '../modules/handlers.ts'
import { cookieName, openUsage, portalCookiePrefix, protocolPaths, type OAuth } from '../modules/identity/index.ts'
import { later, seconds, stopwatch } from '../platform/clock.ts'
import { encode } from '../platform/encode.ts'
import type { Audit, Deed } from '../platform/audit/audit.ts'
import type { Postgres, Transact, Tx } from '../platform/postgres/postgres.ts'
import { rehearse } from '../platform/postgres/rehearsing.ts'
import type { Telemetry } from '../platform/telemetry.ts'
import { authenticate, authorize, recognise, secretOf, type Doorman } from './authenticate.ts'
import { chargedTo, networkOf, type Budgets } from './budget.ts'
import { answerFailure, BearerRefusal } from './failures.ts'
import { beginOnce, finishOnce, once, readKey, type Answer, type Repeatable } from './idempotency.ts'
import { mountPages, type Pages } from './pages.ts'
import { parse, readJson, readQuery } from './parse.ts'
import { mountStorage, type Unhurried } from './storage.ts'
import { chooseVersion } from './versions.ts'

/** What the stages before the body have found out about a request. */
interface Progress {
  readonly elapsed: () => number
  operation?: Operation
  actor: Actor
}

declare module 'fastify' {
  interface FastifyRequest {
    progress: Progress
    rawBody: Buffer
  }
}

export interface ServerOptions {
  readonly implementations: readonly Implementation[]
  readonly platform: Platform
  readonly postgres: Postgres
  readonly telemetry: Telemetry
  readonly budgets: Budgets
  readonly audit: Audit
  readonly gateways: Gateways
  readonly oauth: OAuth
  readonly pages: Pages
  readonly pageDoors: readonly Page[]
  readonly readiness: Readiness
  /** Problems that keep this process from serving; empty when it is ready. */
  readonly unready: () => Promise<string[]>
}

const megabyte = 1024 * 1024
const anyOrigin = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'x-request-id, bursar-version, polar-version, retry-after, ratelimit, ratelimit-policy, idempotent-replayed, bursar-member-phase',
}
const tracer = trace.getTracer('bursar')

/**
 * The one pipeline. Before the body is read: version, authenticate, budget, authorize. After: parse, the handler with its
 * transaction, encode. Whatever is thrown anywhere becomes an answer in one place.
 */
export const openServer = ({
  implementations,
  platform,
  postgres,
  telemetry,
  budgets,
  audit,
  gateways,
  oauth,
  pages,
  pageDoors,
  readiness,
  unready,
}: ServerOptions): FastifyInstance => {
  const { config, clock, log } = platform
  const unhurried: Unhurried = new WeakSet()
  const server = fastify({
    logger: false,
    genReqId: () => newId(clock.wall()),
    bodyLimit: megabyte,
    trustProxy: config.trusted_proxies.length > 0 ? [...config.trusted_proxies] : false,
    requestTimeout: 30 * seconds,
    keepAliveTimeout: 65 * seconds,
    maxRequestsPerSocket: 10_000,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    http: { maxHeaderSize: 16 * 1024, headersTimeout: 10 * seconds, connectionsCheckingInterval: 5 * seconds },
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 500, querystringParser: readQuery },
    frameworkErrors: (error, request, reply) => void fail(error, request as FastifyRequest, reply as unknown as FastifyReply),
    clientErrorHandler: (error, socket) => {
      // The time for a whole request is up, but this one was given more.
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && unhurried.has(socket)) return
      const status =
        error.code === 'HPE_HEADER_OVERFLOW'
          ? '431 Request Header Fields Too Large'
          : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
            ? '408 Request Timeout'
            : '400 Bad Request'
      const body = JSON.stringify({ error: 'BadRequest', detail: 'The request could not be read as HTTP, or took too long to arrive.' })
      if (socket.writable)
        socket.write(
          `HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-type: application/json\r\nx-request-id: ${newId(clock.wall())}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
        )
      socket.destroy()
    },
  })
  const usage = openUsage(postgres.transact, { environment: config.environment, hasher: platform.hasher, clock })
  const door: Doorman = {
    db: postgres.db,
    keys: { environment: config.environment, hasher: platform.hasher, clock },
    usage,
    cookies: { session: cookieName(config), portal: portalCookiePrefix(config) },
    origin: config.public_url.origin,
  }

  server.decorateRequest('progress', null as never)
  server.decorateRequest('rawBody', null as never)
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    request.rawBody = body as Buffer
    try {
      done(null, readJson(body as Buffer))
    } catch (error) {
      done(error as Error)
    }
  })

  const common: Record<string, string> = {
    'cache-control': 'private, no-store',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    ...(config.public_url.protocol === 'https:' ? { 'strict-transport-security': 'max-age=31536000; includeSubDomains' } : {}),
    ...(config.environment === 'sandbox' ? { 'x-polar-sandbox': '1', 'bursar-environment': 'sandbox' } : {}),
  }

  server.addHook('onRequest', (request, reply, done) => {
    request.progress = { elapsed: stopwatch(), actor: anonymous }
    reply.headers({ ...common, 'x-request-id': request.id })
    done()
  })

  server.addHook('onResponse', (request, reply, done) => {
    const { operation, actor, elapsed } = request.progress
    const duration_ms = Math.round(elapsed() * 1000) / 1000
    const name = operation?.id ?? 'unrouted'
    telemetry.request(name, reply.statusCode, duration_ms)
    log.info('request', {
      request_id: request.id,
      operation: name,
      method: request.method,
      ...(operation ? { route: operation.path } : {}),
      status: reply.statusCode,
      duration_ms,
      ...(actor.kind === 'organization' ? { organization_id: actor.organization_id, credential: actor.credential_id } : {}),
      ...(actor.kind === 'user' ? { user_id: actor.user_id, credential: actor.credential_id } : {}),
      ...(actor.kind === 'portal'
        ? { organization_id: actor.organization_id, customer_id: actor.customer_id, member_id: actor.member_id, credential: actor.credential_id }
        : {}),
    })
    done()
  })

  const fail = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const answer = answerFailure(error)
    if (answer.fault)
      log.error('request_failed', { request_id: request.id, operation: request.progress?.operation?.id ?? 'unrouted', status: answer.status, error })
    return reply
      .code(answer.status)
      .headers({ ...(request.progress ? {} : { ...common, 'x-request-id': request.id }), ...answer.headers })
      .type('application/json')
      .send(JSON.stringify(answer.body))
  }
  server.setErrorHandler(fail)

  const paths = Map.groupBy(implementations, ({ operation }) => route(operation))
  server.setNotFoundHandler((request, reply) => {
    const here = (request.raw.url ?? '').split('?')[0]!.replace(/\/+$/, '')
    const methods = [...paths].filter(([path]) => matches(path, here)).flatMap(([, at]) => at.map(({ operation }) => operation.method))
    // A person who mistyped an address sees a page; a program that did sees what it can read.
    if (methods.length === 0 && request.method === 'GET' && !here.startsWith('/v1/') && (request.headers.accept ?? '').includes('text/html')) {
      const view = { kind: 'problem', status: 404, error: 'RouteNotFound', description: '', request_id: request.id, visitor: true } as const
      const { html, headers } = pages.show(request.raw, view)
      return reply.code(404).headers(headers).type('text/html; charset=utf-8').send(html)
    }
    if (methods.length === 0)
      return fail(new RouteNotFound(`There is nothing at this address. The paths that exist are listed in /${defaultVersion}/openapi.json.`), request, reply)
    return fail(new MethodNotAllowed(`This address answers to: ${methods.join(', ')}.`, { allow: methods.join(', ') }), request, reply)
  })

  server.get('/healthz', async (_, reply) => reply.send({ status: 'ok' }))
  server.get('/readyz', async (_, reply) => {
    const problems = await unready()
    return reply.code(problems.length === 0 ? 200 : 503).send({ status: problems.length === 0 ? 'ready' : 'unready', problems })
  })
  for (const version of versions)
    server.get(`/${version}/openapi.json`, async (_, reply) =>
      reply
        .headers({ ...anyOrigin, 'cross-origin-resource-policy': 'cross-origin' })
        .type('application/json')
        .send(documentOf(version)),
    )

  for (const implementation of implementations) if (implementation.kind !== 'protocol') mount(implementation)
  for (const [path, at] of paths) if (at.every(({ kind }) => kind !== 'protocol')) mountPreflight(path, at)
  // The protocol reads its own bodies: within this room nothing else does.
  void server.register(async (room) => {
    room.removeAllContentTypeParsers()
    room.addContentTypeParser('*', (_, __, done) => done(null))
    for (const { operation, kind } of implementations) if (kind === 'protocol') mountProtocol(room, operation)
    for (const url of [protocolPaths.jwks, '/.well-known/openid-configuration', '/.well-known/oauth-authorization-server'])
      // Open to everyone and kept by caches: not charged to anybody.
      room.route({
        method: ['GET', 'OPTIONS'],
        url,
        onRequest: async (_, reply) => void reply.headers(versionHeaders(defaultVersion)),
        handler: (request, reply) => handOver(request, reply, { shared: true }),
      })
    for (const url of [protocolPaths.authorization, `${protocolPaths.authorization}/:uid`])
      room.route({
        method: 'GET',
        url,
        onRequest: async (request, reply) => {
          // It could be neither kept nor given back as it came.
          if (/%00/.test(request.raw.url ?? '')) throw new BadRequest('The address contains the NUL character.')
          reply.headers({ ...versionHeaders(defaultVersion), ...(await budgets.spend('api', `address:${networkOf(request.ip)}`)) })
        },
        handler: (request, reply) => handOver(request, reply),
      })
  })
  const { serve } = gateways.storage
  if (serve) void server.register(async (room) => mountStorage(room, serve, unhurried))
  void server.register(async (room) => mountPages(room, pageDoors, { pages, door, platform, budgets, recorded }))

  const flushing = setInterval(() => void usage.flush().catch((error: unknown) => log.warn('usage_not_written', { error })), 5 * seconds)
  flushing.unref()
  const tallying = setInterval(() => void readiness.flush().catch((error: unknown) => log.warn('readiness_not_written', { error })), 10 * seconds)
  tallying.unref()
  // Whoever reads slowly would keep us here for long.
  server.addHook('preClose', async () => postgres.exporting.stop())
  server.addHook('onClose', async () => {
    clearInterval(flushing)
    clearInterval(tallying)
    await usage.flush().catch((error: unknown) => log.warn('usage_not_written', { error }))
    await readiness.flush().catch((error: unknown) => log.warn('readiness_not_written', { error }))
  })
  return server

  function mount(implementation: Exclude<Implementation, { kind: 'protocol' }>) {
    const { operation } = implementation
    const shared = isShared(operation)
    server.route({
      method: operation.method,
      url: route(operation),
      ...(operation.bodyLimit ? { bodyLimit: operation.bodyLimit } : {}),
      onRequest: async (request, reply) => {
        const { progress } = request
        progress.operation = operation
        if (shared) reply.headers({ ...anyOrigin, 'cross-origin-resource-policy': 'cross-origin' })
        const version = chooseVersion(request.headers)
        reply.headers(versionHeaders(version))
        progress.actor = await identify(operation, request, reply)
        reply.headers(await budgets.spend(operation.budget ?? 'api', operation.budget ? networkOf(request.ip) : chargedTo(progress.actor, request.ip)))
        authorize(operation.access, progress.actor, clock.wall())
      },
      handler: (request, reply) => traced(operation, request, () => handle(implementation, request, reply)),
    })
  }

  /** What the protocol answers carries the same headers as everything else; a wrong secret is charged to the address it came from. */
  function mountProtocol(room: FastifyInstance, operation: Operation) {
    const method = operation.id === 'oauth2:userinfo' ? (['GET', 'POST'] as const) : [operation.method]
    room.route({
      method: [...method, 'OPTIONS'],
      url: route(operation),
      onRequest: async (request, reply) => {
        request.progress.operation = operation
        const version = chooseVersion(request.headers)
        reply.headers(versionHeaders(version))
        await budgets.look('failed_authentications', networkOf(request.ip))
        reply.headers(await budgets.spend('api', `address:${networkOf(request.ip)}`))
      },
      handler: (request, reply) => traced(operation, request, () => handOver(request, reply, { shared: true, guess: true })),
    })
  }

  async function handOver(request: FastifyRequest, reply: FastifyReply, { shared = false, guess = false } = {}): Promise<void> {
    const { raw } = reply
    if (shared) reply.header('cross-origin-resource-policy', 'cross-origin')
    for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) raw.setHeader(name, value)
    reply.hijack()
    const at = later(clock.wall(), -request.progress.elapsed())
    await oauth.answer(request.raw, raw, { at, from: networkOf(request.ip) })
    if (guess && raw.statusCode === 401) await budgets.spend('failed_authentications', networkOf(request.ip)).catch(() => undefined)
  }

  /** Who calls. A credential that is refused is charged to the address it came from: trying many soon answers 429, and good ones of the same address go on. */
  async function identify(operation: Operation, request: FastifyRequest, reply: FastifyReply): Promise<Actor> {
    if (operation.access.kind === 'open' || operation.access.kind === 'protocol') return anonymous
    if (operation.access.kind === 'visitor') return recognise(door, presentedBy(request))
    try {
      return await authenticate(door, operation.access.kind, presentedBy(request))
    } catch (error) {
      if (error instanceof BearerRefusal) reply.headers(await budgets.spend('failed_authentications', networkOf(request.ip)))
      throw error
    }
  }

  /** A transaction whose changes are put down to whoever asked for them. */
  function recorded(deed: Deed): Transact {
    return (work) =>
      postgres.transact(async (tx) => {
        const done = await work(tx)
        await audit.record(tx, deed)
        return done
      })
  }

  /** Notes what the caller does in organizations that prepare for members. Counted once, and only when it is answered: a transaction may run again. */
  function watch(actor: Actor, narrowed: string | undefined) {
    const reach = reachOf(actor, narrowed)
    if ((actor.kind !== 'organization' && actor.kind !== 'user') || !isForeseeable(reach)) return undefined
    const noticed = new Map<string, Set<Finding | 'seen'>>()
    const add = (organization_id: string, finding: Finding | 'seen') => {
      if (reach.phases.get(organization_id) === 'phase1') noticed.set(organization_id, (noticed.get(organization_id) ?? new Set()).add(finding))
    }
    const [only, another] = organizationIds(reach)
    // Of several, it cannot be said which one a request was about.
    if (another === undefined) add(only!, 'seen')
    return {
      reach: { notice: add },
      tell: ({ id }: Operation) => {
        for (const [organization_id, findings] of noticed) for (const finding of findings) readiness.note(organization_id, actor, finding, id)
      },
    }
  }

  async function handle(implementation: Exclude<Implementation, { kind: 'protocol' }>, request: FastifyRequest, reply: FastifyReply) {
    const { operation } = implementation
    const narrowed = narrowedTo(request)
    const ahead = looksAhead(request) && isForeseeable(reachOf(request.progress.actor, narrowed))
    const actor = ahead ? lookAhead(request.progress.actor) : request.progress.actor
    if (ahead) reply.header('bursar-member-phase', '2')
    const parsed = parse(operation, { params: request.params, query: request.query, body: request.body })
    const { access } = operation
    const admit = async (tx: Tx): Promise<Actor> => {
      if (access.kind === 'open' || access.kind === 'protocol') return actor
      if (access.kind === 'visitor') return recognise({ ...door, db: tx }, presentedBy(request))
      const again = await authenticate({ ...door, db: tx }, access.kind, presentedBy(request))
      authorize(access, again, clock.wall())
      return again
    }
    const watched = watch(actor, narrowed)
    const callOf = (who: Actor) =>
      ({
        actor: who,
        reach: { ...reachOf(who, narrowed), ...watched?.reach },
        ...parsed,
        raw: { headers: request.headers, body: request.rawBody ?? Buffer.alloc(0), query: queryOf(request) },
        reply: {} as Record<string, string>,
        platform,
      }) as unknown as Call<never>
    /** The answer as bytes: made before the transaction commits, because what cannot be answered is not done. */
    const answerOf = (call: Call<never>, answer: unknown): Answer =>
      answer === pending && operation.pending
        ? { status: operation.pending, headers: { ...call.reply, 'retry-after': '1' }, text: undefined }
        : {
            status: successStatus(operation),
            headers: call.reply,
            text: operation.returns ? encode(operation.returns, answer) : undefined,
          }
    const attempt = async (who: Actor, work: (call: Call<never>) => Promise<unknown>): Promise<Answer | Refusal> => {
      const call = callOf(who)
      const answer = await work(call)
      return isRefusal(answer) ? answer : answerOf(call, answer)
    }
    const key = operation.method === 'GET' ? undefined : readKey(request.headers['idempotency-key'])
    /** The request as something that must happen once; nothing where no key was sent, or nobody is known to keep it for. */
    const repeatable = (who: Actor): Repeatable | undefined =>
      key === undefined || access.kind === 'open' || access.kind === 'visitor' || access.kind === 'protocol'
        ? undefined
        : {
            operation,
            actor: who,
            key,
            asked: [operation.id, request.raw.url ?? '', narrowed ?? '', request.rawBody ?? ''],
            credential: secretOf(door, access.kind, presentedBy(request))!,
          }
    const deed = (who: Actor): Deed => ({ operation: operation.id, request_id: request.id, actor: who, resource_id: namedBy(parsed.params) })

    const meansOf = (who: Actor) => ({ db: postgres.db, transact: recorded(deed(who)), gateways, platform })
    const inSteps = async ({ look, begin, proceed }: Extract<Implementation, { kind: 'steps' }>): Promise<Answer | Refusal> => {
      const seen = await look?.(meansOf(actor), callOf(actor))
      const begun = await postgres.transact(async (tx) => {
        const who = operation.body ? await admit(tx) : actor
        const work = async () => {
          const intent = await begin(tx, callOf(who), seen as never)
          await audit.record(tx, deed(who))
          return intent as object | Refusal
        }
        const same = repeatable(who)
        const opened = same ? await beginOnce(tx, same, work) : await work().then((intent) => (isRefusal(intent) ? intent : { intent, busy_until: null }))
        return { who, opened }
      })
      if (isRefusal(begun.opened)) return begun.opened
      if ('answer' in begun.opened) return begun.opened.answer
      const { intent, busy_until } = begun.opened
      const same = repeatable(begun.who)
      let answer: Answer | Refusal | undefined
      try {
        answer = await attempt(begun.who, (call) => proceed(meansOf(begun.who), call, intent as never))
        return answer
      } finally {
        if (same) await postgres.transact((tx) => finishOnce(tx, same, answer === undefined || isRefusal(answer) ? undefined : answer, busy_until))
      }
    }

    const inOne = (implementation: Extract<Implementation, { kind: 'write' }>): Promise<Answer | Refusal> =>
      postgres.transact(async (tx) => {
        // A body may take its time to arrive: whether its sender still may is asked again, where the change is made.
        const still = operation.body ? await admit(tx) : actor
        const effect = async () => {
          const answer = await attempt(still, (call) => implementation.handle(tx, call))
          await audit.record(tx, deed(still))
          return answer
        }
        const same = repeatable(still)
        return same ? once(tx, same, effect) : effect()
      })

    if (implementation.kind === 'stream') {
      const call = callOf(actor)
      const gone = new AbortController()
      reply.raw.once('close', () => gone.abort())
      const body = await implementation.handle((what) => postgres.exporting.run(what, gone.signal), call)
      // Not a clean end, also to those for whom the end of the connection is the end of the file.
      body.once('error', () => reply.raw.socket?.resetAndDestroy())
      return reply.headers(call.reply).type(`${operation.media!}; charset=utf-8`).send(body)
    }
    const done =
      implementation.kind === 'read'
        ? await attempt(actor, (call) => implementation.handle(postgres.db, call))
        : implementation.kind === 'steps'
          ? await inSteps(implementation)
          : implementation.kind === 'rehearsal'
            ? await rehearse(postgres.transact, async (tx) => {
                const still = await admit(tx)
                return attempt(still, (call) => implementation.handle(tx, call, meansOf(still)))
              })
            : await inOne(implementation)
    if (isRefusal(done)) throw done.refusal
    watched?.tell(operation)
    reply.code(done.status).headers(done.headers)
    return done.text === undefined ? reply.send() : reply.type('application/json').send(done.text)
  }

  /** Browsers ask before they send: operations that any page may use say yes, the others say nothing. */
  function mountPreflight(path: string, at: readonly Implementation[]) {
    const methods = at.filter(({ operation }) => isShared(operation)).map(({ operation }) => operation.method)
    server.options(path, async (_, reply) => {
      if (methods.length > 0)
        reply.headers({
          'access-control-allow-origin': '*',
          'access-control-allow-methods': methods.join(', '),
          'access-control-allow-headers': 'authorization, content-type, bursar-version, polar-version, bursar-member-phase, idempotency-key',
          'access-control-max-age': '600',
        })
      return reply
        .code(204)
        .header('allow', at.map(({ operation }) => operation.method).join(', '))
        .send()
    })
  }
}

/** The document of a version, written when somebody first asks: that takes a second, which no start has to wait for. */
const documentOf = (version: (typeof versions)[number]): string => {
  const known = documents.get(version) ?? JSON.stringify(document(version))
  documents.set(version, known)
  return known
}
const documents = new Map<string, string>()

/** What a request names in its address. */
const namedBy = (params: unknown): string | undefined => {
  const { seat_id, grant_id, id = seat_id ?? grant_id } = (params ?? {}) as { id?: unknown; seat_id?: unknown; grant_id?: unknown }
  return typeof id === 'string' && uuid.test(id) ? id : undefined
}

const versionHeaders = (version: string) => ({ 'bursar-version': version, 'polar-version': version })

/** Operations for browsers of any site: they carry no cookie, so an origin proves nothing. */
const isShared = ({ access }: Operation) => access.kind === 'portal' || (access.kind === 'open' && access.anyOrigin)

const route = (operation: Operation) => operation.path.replace(/\{([^}]+)\}/g, ':$1').replace(/\/+$/, '')

const matches = (path: string, address: string) => {
  const want = path.split('/')
  const have = address.split('/')
  return want.length === have.length && want.every((part, at) => part.startsWith(':') || part === have[at])
}

/** What follows the question mark, as it came. */
const queryOf = ({ raw: { url = '' } }: FastifyRequest): string => (url.includes('?') ? url.slice(url.indexOf('?') + 1) : '')

const presentedBy = (request: FastifyRequest) => {
  const { rawHeaders } = request.raw
  const authorization = rawHeaders.flatMap((name, at) => (at % 2 === 0 && name.toLowerCase() === 'authorization' ? [rawHeaders[at + 1]!] : []))
  const single = (name: string) => (typeof request.headers[name] === 'string' ? request.headers[name] : undefined)
  return {
    authorization,
    cookie: request.headers.cookie,
    method: request.method,
    origin: request.headers.origin,
    site: single('sec-fetch-site'),
    asked: single('bursar-csrf'),
    organization: narrowedTo(request),
  }
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** A request may confine itself to one organization; one that the caller does not belong to means no access at all. */
const narrowedTo = (request: FastifyRequest): string | undefined => {
  for (const name of ['bursar-organization', 'polar-organization']) {
    const value = request.headers[name]
    if (value === undefined) continue
    if (typeof value === 'string' && uuid.test(value)) return value.toLowerCase()
    throw new InvalidRequest({ loc: ['header', name], msg: 'Expected the id of one organization, a UUID.', type: 'uuid_parsing', input: value })
  }
  return undefined
}

/** A request may ask to be answered as after the switch to members, where that is prepared. What it changes is changed in the phase that is. */
const looksAhead = (request: FastifyRequest): boolean => {
  const name = 'bursar-member-phase'
  const value = request.headers[name]
  if (value === undefined) return false
  if (value !== '2')
    throw new InvalidRequest({
      loc: ['header', name],
      msg: 'Expected 2, the phase to look ahead to; or leave the header out.',
      type: 'literal_error',
      input: value,
    })
  if (request.method === 'GET') return true
  throw new InvalidRequest({
    loc: ['header', name],
    msg: 'Only reading can look ahead: a change is made, and answered, in the phase that the organization is in. Leave the header out.',
    type: 'value_error',
    input: value,
  })
}

const traced = async <T>(operation: Operation, request: FastifyRequest, work: () => Promise<T>): Promise<T> => {
  const parent = propagation.extract(otel.active(), request.headers)
  return tracer.startActiveSpan(
    operation.id,
    { kind: SpanKind.SERVER, attributes: { 'http.route': operation.path, 'http.request.method': operation.method } },
    parent,
    async (span) => {
      try {
        return await work()
      } catch (error) {
        span.setStatus({ code: SpanStatusCode.ERROR })
        throw error
      } finally {
        span.end()
      }
    },
  )
}
