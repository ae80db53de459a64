import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { requestLimits } from '@bursar/contract'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { newId } from '../kernel/ids.ts'
import type { Platform } from '../modules/handlers.ts'
import { seconds } from '../platform/clock.ts'
import type { HttpContext } from './context.ts'
import { readJson, readQuery } from './parse.ts'
import { readSliced } from './slices.ts'
import type { Unhurried } from './storage.ts'

/** Opens the HTTP listener with its timeouts and size limits. Sockets in `unhurried` upload a file and may exceed the request timeout. */
export const openListener = ({ config, clock }: Platform, fail: HttpContext['fail'], unhurried: Unhurried): FastifyInstance => {
  const server = fastify({
    logger: false,
    genReqId: () => newId(clock.wall()),
    bodyLimit: requestLimits.body_bytes,
    trustProxy: config.trusted_proxies.length > 0 ? [...config.trusted_proxies] : false,
    requestTimeout: requestLimits.seconds_to_arrive * seconds,
    keepAliveTimeout: 65 * seconds,
    maxRequestsPerSocket: 10_000,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    http: {
      maxHeaderSize: requestLimits.header_bytes,
      headersTimeout: requestLimits.seconds_for_headers_to_arrive * seconds,
      connectionsCheckingInterval: 5 * seconds,
    },
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: requestLimits.path_parameter_characters, querystringParser: readQuery },
    frameworkErrors: (error, request, reply) => void fail(error, request as FastifyRequest, reply as unknown as FastifyReply),
    clientErrorHandler: (error, socket) => {
      // Ignores the request timeout for a socket that uploads a file, because such a socket has a longer timeout.
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
  endUnfinished(server, unhurried)
  server.decorateRequest('progress', null as never)
  server.decorateRequest('rawBody', null as never)
  server.decorateRequest('sliced', null as never)
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (request: FastifyRequest, bytes: Buffer) => {
    request.rawBody = bytes
    const list = request.progress?.operation?.slices
    if (list === undefined) return readJson(bytes)
    const { body, ...sliced } = await readSliced(bytes, list)
    request.sliced = sliced
    return body
  })
  return server
}

/**
 * Ends connections that would delay the shutdown for as long as their client likes. Node waits for them, because it
 * counts a connection without a request as busy, and a server that closes no longer applies its request timeouts.
 * A browser opens such connections in advance. Closes at once a connection that sent nothing, and after the request
 * timeout one whose request has still not arrived whole.
 */
const endUnfinished = (server: FastifyInstance, unhurried: Unhurried) => {
  const open = new Set<Socket>()
  const requests = new WeakMap<Socket, IncomingMessage>()
  let closing = false
  let late: NodeJS.Timeout | undefined
  server.server.on('connection', (socket) => {
    if (closing) return void socket.destroy()
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  server.server.on('request', (request) => requests.set(request.socket, request))
  server.addHook('preClose', async () => {
    closing = true
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy()
    late = setTimeout(() => {
      for (const socket of open) if (!unhurried.has(socket) && requests.get(socket)?.complete !== true) socket.destroy()
    }, requestLimits.seconds_to_arrive * seconds)
  })
  server.addHook('onClose', async () => clearTimeout(late))
}

/** Headers of every response. */
export const commonHeaders = ({ config }: Platform): Record<string, string> => ({
  'cache-control': 'private, no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  ...(config.public_url.protocol === 'https:' ? { 'strict-transport-security': 'max-age=31536000; includeSubDomains' } : {}),
  ...(config.environment === 'sandbox' ? { 'x-polar-sandbox': '1', 'bursar-environment': 'sandbox' } : {}),
})
