import { requestLimits, type Operation } from '@bursar/contract'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { anonymous, type Actor } from '../kernel/actors.ts'
import { networkOf } from '../kernel/networks.ts'
import type { Implementation } from '../modules/handlers.ts'
import { authenticate, authorize, recognise } from './authenticate.ts'
import { openCharges } from './charges.ts'
import { ordinaryCharge } from './budget.ts'
import { pageOfCall } from './budget-pages.ts'
import type { HttpContext } from './context.ts'
import { BearerRefusal } from './failures.ts'
import { handle } from './handle.ts'
import { openLargeBodies } from './large-bodies.ts'
import { anyOrigin, isShared, payerOf, presentedBy, route, versionHeaders } from './requests.ts'
import { traced } from './tracing.ts'
import { chooseVersion } from './versions.ts'

/**
 * Mounts an operation. Before the body is read: version, authentication, rate limit, authorization. After it: parsing,
 * the handler in its transaction, encoding.
 */
export const mountOperation = (server: FastifyInstance, context: HttpContext, implementation: Exclude<Implementation, { kind: 'protocol' }>): void => {
  const { budgets, platform } = context
  const { operation } = implementation
  const shared = isShared(operation)
  const late = operation.budget !== undefined && budgets.isLate(operation.budget)
  const largeBodies = operation.slices === undefined ? undefined : openLargeBodies()
  server.route({
    method: operation.method,
    url: route(operation),
    exposeHeadRoute: operation.browser === true,
    ...(operation.bodyLimit ? { bodyLimit: operation.bodyLimit } : {}),
    onRequest: async (request, reply) => {
      const { progress } = request
      progress.operation = operation
      if (shared) reply.headers({ ...anyOrigin, 'cross-origin-resource-policy': 'cross-origin' })
      const version = chooseVersion(request.headers)
      reply.headers(versionHeaders(version))
      progress.actor = await identify(context, operation, request, reply)
      // If the handler charges the budget of the operation itself, only `received_events` is charged here, to the client address.
      const budget = late ? 'received_events' : operation.budget
      const page = pageOfCall.getStore()
      const usual = ordinaryCharge(progress.actor, payerOf(progress.actor, operation, request))
      reply.headers(budget ? await budgets.spend(budget, networkOf(request.ip)) : page ? await page.call() : await budgets.spend(usual.name, usual.who))
      authorize(operation.access, progress.actor, platform.clock.wall())
      if (largeBodies) {
        // A body of unknown length counts as the largest one. A larger body is refused before it is read.
        const most = operation.bodyLimit ?? requestLimits.body_bytes
        const end = largeBodies.admit(payerOf(progress.actor, operation, request), Math.min(most, Number(request.headers['content-length'] ?? most)))
        if (reply.raw.destroyed) end()
        else reply.raw.once('close', end)
      }
    },
    handler: (request, reply) => {
      const charges = openCharges(budgets, networkOf(request.ip), late)
      return traced(operation, request, () => charges.settle(() => handle(context, implementation, request, reply, charges)))
    },
  })
}

/**
 * Authenticates the caller. A rejected credential is charged to the client address. Further invalid credentials from
 * that address are then answered with 429, while valid ones still work.
 */
const identify = async ({ auth, budgets }: HttpContext, operation: Operation, request: FastifyRequest, reply: FastifyReply): Promise<Actor> => {
  if (operation.access.kind === 'open' || operation.access.kind === 'protocol') return anonymous
  if (operation.access.kind === 'visitor') return recognise(auth, presentedBy(request))
  try {
    return await authenticate(auth, operation.access.kind, presentedBy(request))
  } catch (error) {
    if (error instanceof BearerRefusal) reply.headers(await budgets.spend('failed_authentications', networkOf(request.ip)))
    throw error
  }
}

/** Answers CORS preflight requests. Only operations that pages of any site may call answer with CORS headers. */
export const mountPreflight = (server: FastifyInstance, path: string, at: readonly Implementation[]): void => {
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
