import { BadRequest, Failure } from '@bursar/contract'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { anonymous } from '../kernel/actors.ts'
import { networkOf } from '../kernel/networks.ts'
import { cookieName, credentialsIn, openUsage, portalCookiePrefix } from '../modules/identity/index.ts'
import { pageInstead } from '../modules/handlers.ts'
import { seconds, stopwatch } from '../platform/clock.ts'
import type { AuditContext } from '../platform/audit/audit.ts'
import type { Transact } from '../platform/postgres/postgres.ts'
import { refuseHost } from '../platform/hosts.ts'
import type { AuthContext } from './authenticate.ts'
import type { HttpContext, ServerOptions } from './context.ts'
import { mountDocuments } from './documents.ts'
import { answerFailure } from './failures.ts'
import { commonHeaders, openListener } from './listen.ts'
import { mountOperation, mountPreflight } from './mount.ts'
import { failedPage, prefersHtml } from './page-failures.ts'
import { named } from './page-sellers.ts'
import { mountPages } from './pages.ts'
import { mountPictures } from './pictures.ts'
import { mountProtocol } from './protocol.ts'
import { route } from './requests.ts'
import { mountStorage, type Unhurried } from './storage.ts'
import { answerUnrouted } from './unrouted.ts'

/** Builds the server. `listen.ts` creates it, `mount.ts`, `protocol.ts`, `storage.ts` and `pages.ts` add routes, and `handle.ts` answers the operations. */
export const openServer = (options: ServerOptions): FastifyInstance => {
  const { implementations, platform, postgres, telemetry, budgets, audit, gateways, pages, pageDoors, readiness, unready } = options
  const { config, clock, log } = platform
  const usage = openUsage(postgres.transact, { environment: config.environment, hasher: platform.hasher, clock })
  const auth: AuthContext = {
    find: credentialsIn(postgres.db),
    keys: { environment: config.environment, hasher: platform.hasher, clock },
    usage,
    cookies: { session: cookieName(config), portal: portalCookiePrefix(config) },
    origin: config.public_url.origin,
  }

  const common = commonHeaders(platform)
  const failAsPage = async (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const { status, headers, view, script, seller } = failedPage(error, request)
    const look = seller === undefined ? await pages.sellers.find(request, status) : seller
    const shown = pages.show(request.raw, named(view, look), { script, seller: look })
    return reply
      .code(status)
      .headers({ ...headers, ...shown.headers })
      .type('text/html; charset=utf-8')
      .send(shown.html)
  }
  const fail = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    // A caller who closes the connection in the middle of the body is no fault of the server, and gets no answer.
    const answer = answerFailure(request.raw.readableAborted ? new BadRequest('The connection was closed before the whole body had arrived.') : error)
    if (answer.fault)
      log.error('request_failed', { request_id: request.id, operation: request.progress?.operation?.id ?? 'unrouted', status: answer.status, error })
    const { operation, page } = request.progress ?? {}
    const isOpenedInBrowser = operation?.browser === true || page === true || (error instanceof Failure && pageInstead.has(error))
    if (isOpenedInBrowser && prefersHtml(request)) return failAsPage(error, request, reply)
    return reply
      .code(answer.status)
      .headers({ ...(request.progress ? {} : { ...common, 'x-request-id': request.id }), ...answer.headers })
      .type('application/json')
      .send(JSON.stringify(answer.body))
  }
  const recorded =
    (entry: AuditContext): Transact =>
    (work) =>
      postgres.transact(async (tx) => {
        const done = await work(tx)
        await audit.record(tx, entry)
        return done
      })
  const context: HttpContext = { ...options, auth, recorded, fail }
  const unhurried: Unhurried = new WeakSet()
  const server = openListener(platform, fail, unhurried)
  server.setErrorHandler(fail)

  server.addHook('onRequest', (request, reply, done) => {
    request.progress = { elapsed: stopwatch(), actor: anonymous }
    reply.headers({ ...common, 'x-request-id': request.id })
    const refused = refuseHost(request.raw, config.allowed_hosts)
    if (refused) return void fail(refused, request, reply)
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

  const paths = Map.groupBy(implementations, ({ operation }) => route(operation))
  server.setNotFoundHandler(answerUnrouted(context))

  server.get('/healthz', async (_, reply) => reply.send({ status: 'ok' }))
  const problems = shared(unready)
  server.get('/readyz', async (request, reply) => {
    reply.headers(await budgets.spend('readiness', networkOf(request.ip)))
    const found = await problems()
    return reply.code(found.length === 0 ? 200 : 503).send({ status: found.length === 0 ? 'ready' : 'unready', problems: found })
  })
  mountDocuments(server, budgets)

  for (const implementation of implementations) if (implementation.kind !== 'protocol') mountOperation(server, context, implementation)
  for (const [path, at] of paths) if (at.every(({ kind }) => kind !== 'protocol')) mountPreflight(server, path, at)
  void server.register(async (room) => mountProtocol(room, context))
  const { serve } = gateways.storage
  if (serve) void server.register(async (room) => mountStorage(room, serve, unhurried))
  void server.register(async (room) => mountPictures(room, context))
  void server.register(async (room) => mountPages(room, pageDoors, { pages, door: auth, platform, budgets, recorded }))

  const flushing = setInterval(() => void usage.flush().catch((error: unknown) => log.warn('usage_not_written', { error })), 5 * seconds)
  flushing.unref()
  const tallying = setInterval(() => void readiness.flush().catch((error: unknown) => log.warn('readiness_not_written', { error })), 10 * seconds)
  tallying.unref()
  // Exports are aborted before the shutdown, because a slow reader could delay it by up to an hour.
  server.addHook('preClose', async () => postgres.exporting.stop())
  server.addHook('onClose', async () => {
    clearInterval(flushing)
    clearInterval(tallying)
    await usage.flush().catch((error: unknown) => log.warn('usage_not_written', { error }))
    await readiness.flush().catch((error: unknown) => log.warn('readiness_not_written', { error }))
  })
  return server
}

/** Runs a check once for all requests that arrive while it runs. Many readiness probes therefore cost as much as one. */
const shared = <T>(look: () => Promise<T>): (() => Promise<T>) => {
  let looking: Promise<T> | undefined
  return () => (looking ??= look().finally(() => (looking = undefined)))
}
