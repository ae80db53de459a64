import { defaultVersion, MethodNotAllowed, RouteNotFound } from '@bursar/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../kernel/networks.ts'
import { trimEndOf } from '../kernel/texts.ts'
import { pageInstead, type Implementation } from '../modules/handlers.ts'
import type { HttpContext } from './context.ts'
import { problemView } from './page-failures.ts'
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
export const answerUnrouted = ({ implementations, budgets, fail }: HttpContext) => {
  const methodsAt = openMethods(implementations)
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const url = request.raw.url ?? ''
    const query = url.indexOf('?')
    const here = trimEndOf(query < 0 ? url : url.slice(0, query), '/')
    const methods = methodsAt(here)
    // Set before the charge, so that a browser gets a page about the limit too.
    request.progress.page = methods.length === 0 && (request.method === 'GET' || request.method === 'HEAD') && !here.startsWith('/v1/')
    reply.headers(await budgets.spend('other_paths', networkOf(request.ip)))
    if (methods.length === 0) {
      const absent = new RouteNotFound(`There is nothing at this path. All paths are listed in /${defaultVersion}/openapi.json.`)
      if (request.progress.page) pageInstead.set(absent, { view: problemView(request, { status: 404, error: 'RouteNotFound' }) })
      return fail(absent, request, reply)
    }
    return fail(new MethodNotAllowed(`This path supports: ${methods.join(', ')}.`, { allow: methods.join(', ') }), request, reply)
  }
}
