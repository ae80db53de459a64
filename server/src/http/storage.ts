import type { Socket } from 'node:net'
import { BadRequest, failure, NotPermitted, RequestBodyTooLarge, ResourceNotFound } from '@bursar/contract'
import type { FastifyInstance } from 'fastify'
import { LinkRefused, type ServeLink } from '../gateways/storage/storage.ts'
import { seconds } from '../platform/clock.ts'

const RangeNotSatisfiable = failure('RangeNotSatisfiable', 416, 'The file ends before the bytes that were asked for.')

const kinds: Record<LinkRefused['code'], typeof BadRequest> = {
  not_permitted: NotPermitted,
  absent: ResourceNotFound,
  wrong_body: BadRequest,
  too_large: RequestBodyTooLarge,
  out_of_range: RangeNotSatisfiable,
}

/** Sockets whose request may take longer than any other, because a link allowed a large body. */
export type Unhurried = WeakSet<Socket>

/**
 * The links of a storage that has no server of its own. Bodies pass through as they come, in both directions. The link
 * is the credential, and public files are kept by caches: nothing is charged to anybody.
 */
export const mountStorage = (room: FastifyInstance, serve: ServeLink, unhurried: Unhurried): void => {
  room.removeAllContentTypeParsers()
  // Left unread: whether it is read at all, and how much of it, is for the link to say.
  room.addContentTypeParser('*', (_, __, done) => done(null))
  room.route({
    method: ['GET', 'PUT', 'OPTIONS'],
    url: '/storage/*',
    handler: async (request, reply) => {
      const { raw } = request
      const admitted = () => {
        // As long as bytes come or go it may take its time; the socket's own clock ends it when none do.
        unhurried.add(raw.socket)
        raw.socket.setTimeout(30 * seconds)
        reply.raw.once('close', () => unhurried.delete(raw.socket))
      }
      try {
        const { status, headers, body } = await serve({ method: request.method, url: raw.url ?? '', headers: request.headers, body: raw, admitted })
        reply.code(status).headers(headers)
        return await reply.send(body)
      } catch (error) {
        // What was not read of a body is not waited for.
        if (!raw.complete) reply.header('connection', 'close')
        reply.headers({ 'access-control-allow-origin': '*', 'cross-origin-resource-policy': 'cross-origin' })
        throw error instanceof LinkRefused ? new kinds[error.code](error.message) : error
      }
    },
  })
}
