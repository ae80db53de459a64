import { defaultVersion, MethodNotAllowed, RouteNotFound } from '@bursar/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../kernel/networks.ts'
import { trimEndOf } from '../kernel/texts.ts'
import type { Implementation } from '../modules/handlers.ts'
import type { HttpContext } from './context.ts'
import { route } from './requests.ts'

/** Returns a function that looks up the methods that exist at a path. It compares only routes with the same number of segments. */
export const openMethods = (implementations: readonly Pick<Implementation, 'operation'>[]) => {
  const paths = Map.groupBy(
    implementations.map(({ operation }) => ({ parts: route(operation).split('/'), method: operation.method })),
    ({ parts }) => parts.length,
  )
  const most = Math.max(...paths.keys())
  return (address: string): string[] => {
    const have = address.split('/', most + 1)
    const fitting = (paths.get(have.length) ?? []).filter(({ parts }) => parts.every((part, at) => part.startsWith(':') || part === have[at]))
    return [...new Set(fitting.map(({ method }) => method))]
  }
}

/**
 * Answers a request that no route matches: 405 if the path exists with another method, else 404. A browser gets an
 * HTML page. The request is charged to the client address.
 */
export const answerUnrouted = ({ implementations, pages, budgets, fail }: HttpContext) => {
  const methodsAt = openMethods(implementations)
  return async (request: FastifyRequest, reply: FastifyReply) => {
    reply.headers(await budgets.spend('other_paths', networkOf(request.ip)))
    const url = request.raw.url ?? ''
    const query = url.indexOf('?')
    const here = trimEndOf(query < 0 ? url : url.slice(0, query), '/')
    const methods = methodsAt(here)
    if (methods.length === 0 && request.method === 'GET' && !here.startsWith('/v1/') && (request.headers.accept ?? '').includes('text/html')) {
      const view = { kind: 'problem', status: 404, error: 'RouteNotFound', description: '', request_id: request.id, visitor: true } as const
      const { html, headers } = pages.show(request.raw, view)
      return reply.code(404).headers(headers).type('text/html; charset=utf-8').send(html)
    }
    if (methods.length === 0)
      return fail(new RouteNotFound(`There is nothing at this path. All paths are listed in /${defaultVersion}/openapi.json.`), request, reply)
    return fail(new MethodNotAllowed(`This path supports: ${methods.join(', ')}.`, { allow: methods.join(', ') }), request, reply)
  }
}
