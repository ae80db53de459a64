import type { Socket } from 'node:net'
import { BadRequest, failure, NotPermitted, RequestBodyTooLarge, ResourceNotFound } from '@bursar/contract'
import type { FastifyInstance } from 'fastify'
import { LinkRefused, type ServeLink } from '../gateways/storage/storage.ts'
import { pageInstead } from '../modules/handlers.ts'
import { seconds } from '../platform/clock.ts'
import { problemView } from './page-failures.ts'

const RangeNotSatisfiable = failure('RangeNotSatisfiable', 416, 'The file is shorter than the requested range.')

const kinds: Record<LinkRefused['code'], typeof BadRequest> = {
  not_permitted: NotPermitted,
  absent: ResourceNotFound,
  wrong_body: BadRequest,
  too_large: RequestBodyTooLarge,
  out_of_range: RangeNotSatisfiable,
}

/** Sockets whose request may exceed the request timeout, because a link allowed a large body. */
export type Unhurried = WeakSet<Socket>

/**
 * Serves the links of the local object store. Bodies are streamed in both directions. Requests are not rate limited: a
 * signed link is required for private files, and caches serve public files.
 */
export const mountStorage = (room: FastifyInstance, serve: ServeLink, unhurried: Unhurried): void => {
  room.removeAllContentTypeParsers()
  // Does not read the body. The link decides whether the body is read, and how much of it.
  room.addContentTypeParser('*', (_, __, done) => done(null))
  room.route({
    method: ['GET', 'PUT', 'OPTIONS'],
    url: '/storage/*',
    handler: async (request, reply) => {
      const { raw } = request
      const admitted = () => {
        // The upload may exceed the request timeout while data arrives. The socket timeout ends it after 30 seconds without data.
        unhurried.add(raw.socket)
        raw.socket.setTimeout(30 * seconds)
        reply.raw.once('close', () => unhurried.delete(raw.socket))
      }
      try {
        const { status, headers, body } = await serve({ method: request.method, url: raw.url ?? '', headers: request.headers, body: raw, admitted })
        reply.code(status).headers(headers)
        return await reply.send(body)
      } catch (error) {
        // Closes the connection instead of waiting for the unread rest of the body.
        if (!raw.complete) reply.header('connection', 'close')
        reply.headers({ 'access-control-allow-origin': '*', 'cross-origin-resource-policy': 'cross-origin' })
        if (!(error instanceof LinkRefused)) throw error
        const refused = new kinds[error.code](error.message)
        // A browser that opens an old link of a download gets a page. Uploads are sent by programs.
        if (request.method === 'GET') pageInstead.set(refused, { view: problemView(request, { status: refused.status, error: 'link_over' }) })
        throw refused
      }
    },
  })
}
