import { BadRequest, defaultVersion, UnsupportedMediaType, type Operation } from '@bursar/contract'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../kernel/networks.ts'
import { protocolPaths } from '../modules/identity/index.ts'
import { later } from '../platform/clock.ts'
import type { HttpContext } from './context.ts'
import { route, versionHeaders } from './requests.ts'
import { traced } from './tracing.ts'
import { chooseVersion } from './versions.ts'

/**
 * Mounts the routes of the OAuth library. The library reads request bodies itself, so no body parser of the framework
 * runs for these routes.
 */
export const mountProtocol = (server: FastifyInstance, context: HttpContext): void => {
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('*', (_, __, done) => done(null))
  server.setErrorHandler((error, request, reply) => {
    const isUnreadable = (error as { code?: string }).code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE'
    return context.fail(isUnreadable ? new UnsupportedMediaType('Send the body as application/x-www-form-urlencoded.') : error, request, reply)
  })
  for (const { operation, kind } of context.implementations) if (kind === 'protocol') mountEndpoint(server, context, operation)
  for (const url of [protocolPaths.jwks, '/.well-known/openid-configuration', '/.well-known/oauth-authorization-server'])
    // These routes are not rate limited, because they are public and cacheable.
    server.route({
      method: ['GET', 'OPTIONS'],
      url,
      onRequest: async (_, reply) => void reply.headers(versionHeaders(defaultVersion)),
      handler: (request, reply) => handOver(context, request, reply, { shared: true }),
    })
  for (const url of [protocolPaths.authorization, `${protocolPaths.authorization}/:uid`])
    server.route({
      method: 'GET',
      url,
      onRequest: async (request, reply) => {
        // Rejects NUL characters, because PostgreSQL cannot store them.
        if (/%00/.test(request.raw.url ?? '')) throw new BadRequest('The address contains the NUL character.')
        reply.headers({ ...versionHeaders(defaultVersion), ...(await context.budgets.spend('api', `address:${networkOf(request.ip)}`)) })
      },
      handler: (request, reply) => handOver(context, request, reply),
    })
}

/** Mounts an OAuth endpoint with the same headers as all other routes. A wrong secret is charged to the client address. */
const mountEndpoint = (server: FastifyInstance, context: HttpContext, operation: Operation): void => {
  const method = operation.id === 'oauth2:userinfo' ? (['GET', 'POST'] as const) : [operation.method]
  server.route({
    method: [...method, 'OPTIONS'],
    url: route(operation),
    onRequest: async (request, reply) => {
      request.progress.operation = operation
      const version = chooseVersion(request.headers)
      reply.headers(versionHeaders(version))
      await context.budgets.look('failed_authentications', networkOf(request.ip))
      // The OAuth library would send an error as an HTML page to a client that accepts HTML.
      request.raw.headers.accept = 'application/json'
    },
    handler: (request, reply) => traced(operation, request, () => handOver(context, request, reply, { shared: true, guess: true })),
  })
}

/** Hands a request to the OAuth library, which writes the answer itself. */
const handOver = async (
  { oauth, budgets, platform }: HttpContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { shared = false, guess = false } = {},
): Promise<void> => {
  const { raw } = reply
  if (shared) reply.header('cross-origin-resource-policy', 'cross-origin')
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) raw.setHeader(name, value)
  reply.hijack()
  const at = later(platform.clock.wall(), -request.progress.elapsed())
  const from = networkOf(request.ip)
  // The OAuth library calls this function once per request, with the client if it has authenticated and otherwise with null.
  const charge = (client_id: string | null) => budgets.spend('api', client_id === null ? `address:${from}` : `client:${client_id}`)
  await oauth.answer(request.raw, raw, { at, from, ...(guess ? { charge } : {}) })
  if (guess && raw.statusCode === 401) await budgets.spend('failed_authentications', networkOf(request.ip)).catch(() => undefined)
}
