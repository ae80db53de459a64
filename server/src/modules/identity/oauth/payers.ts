import type { IncomingMessage } from 'node:http'
import { Failure } from '@bursar/contract'
import { errors, Provider, type KoaContextWithOIDC } from 'oidc-provider'
import type { Arrival } from './adapters.ts'

/**
 * Counts each protocol request once against a rate limit. The limit is that of the OAuth client if it has
 * authenticated, otherwise that of the IP address. A client is counted before any token is issued, so that a rejected
 * request has no effect.
 */
export const openPayers = (arrivalOf: (request: IncomingMessage) => Arrival | undefined) => {
  const charged = new WeakMap<IncomingMessage, Promise<Failure | Record<string, string>>>()

  const charge = (request: IncomingMessage, client_id: string | null): Promise<Failure | Record<string, string>> | undefined => {
    const arrival = arrivalOf(request)
    if (!arrival?.charge || charged.has(request)) return charged.get(request)
    const outcome = arrival.charge(client_id).catch((error: unknown) => {
      if (error instanceof Failure) return error
      throw error
    })
    charged.set(request, outcome)
    return outcome
  }

  return {
    /** Counts the current request against the rate limit of the client. Rejects the request if the limit is exceeded. */
    pay: async (client_id: string): Promise<void> => {
      const request = Provider.ctx?.req
      const outcome = request && (await charge(request, client_id))
      if (outcome instanceof Failure) throw new errors.TemporarilyUnavailable(outcome.message)
    },
    /** Counts the request against the IP address if no client was counted. Answers 429 with retry-after if a rate limit is exceeded. */
    middleware: async (ctx: KoaContextWithOIDC, next: () => Promise<void>): Promise<void> => {
      await next()
      const outcome = await charge(ctx.req, null)
      if (!outcome) return
      if (!(outcome instanceof Failure)) return ctx.set(outcome)
      ctx.status = outcome.status
      ctx.remove('www-authenticate')
      ctx.set(outcome.headers)
      ctx.body = { error: outcome.error, detail: outcome.message }
    },
  }
}
export type Payers = ReturnType<typeof openPayers>
