import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { Stripe } from 'stripe'
import type { Secret } from '../../../kernel/secrets.ts'
import { seconds } from '../../../platform/clock.ts'
import { ProcessorRefusal, ProcessorSilent } from '../payments.ts'

const kept = { keepAlive: true, maxFreeSockets: 16, timeout: 60 * seconds }

/**
 * The way to Stripe: to its own address, or to a stand-in's. Nothing is repeated behind our back – but for what came too late
 * for a connection that was kept, once, under the same key – since what is asked again is decided by whoever looks after the
 * attempt; and nothing is told about us besides what is asked.
 */
export const openClients = ({ base, timeout_ms = 30 * seconds }: { base: URL | undefined; timeout_ms?: number | undefined }) => {
  const agent = base?.protocol === 'http:' ? new HttpAgent(kept) : new HttpsAgent(kept)
  const address = base
    ? {
        host: base.hostname,
        port: base.port || (base.protocol === 'http:' ? '80' : '443'),
        protocol: base.protocol === 'http:' ? ('http' as const) : ('https' as const),
      }
    : {}
  const httpClient = Stripe.createNodeHttpClient(agent)
  return {
    open: (key: Secret): Stripe => new Stripe(key.reveal(), { ...address, httpClient, maxNetworkRetries: 0, timeout: timeout_ms, telemetry: false }),
    close: () => agent.destroy(),
  }
}

/** A bank's no. It is an answer: the intent itself tells it. */
export const isDecline = (error: unknown): error is Stripe.errors.StripeCardError => error instanceof Stripe.errors.StripeCardError

/**
 * Whether Stripe did nothing, or whether nobody knows. A request that was wrong was not carried out; but a key that is no
 * longer let in, a limit, a request under the same key that is still on its way, a broken server or line say nothing about
 * what became of it, or of the one before it.
 */
export const heard = async <T>(call: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    if (error instanceof RangeError) throw new ProcessorRefusal('amount_invalid', error.message)
    if (isDecline(error)) throw new ProcessorRefusal(error.decline_code ?? error.code ?? 'card_declined', error.message)
    if (error instanceof Stripe.errors.StripeInvalidRequestError || error instanceof Stripe.errors.StripeIdempotencyError) {
      const code = error.code ?? 'request_refused'
      // Its words are for whoever runs the shop, and these reach whoever buys there.
      throw new ProcessorRefusal(code, `The payment processor refused this: ${code}.`)
    }
    if (error instanceof Stripe.errors.StripeError)
      throw new ProcessorSilent(call, { cause: new Error(`${error.type} ${error.statusCode ?? ''} ${error.code ?? ''}`) })
    throw error
  }
}

/** Which account a key opens. Here a key that is not let in is an answer. */
export const inspectKey = async (client: Stripe): Promise<{ id: string }> => {
  try {
    const { id } = await client.accounts.retrieveCurrent()
    return { id }
  } catch (error) {
    if (error instanceof Stripe.errors.StripeAuthenticationError) throw new ProcessorRefusal('key_unknown', 'Stripe does not know this secret key.')
    if (error instanceof Stripe.errors.StripePermissionError) throw new ProcessorRefusal('key_restricted', 'This key may not read its own account at Stripe.')
    return heard('inspect', () => Promise.reject(error as Error))
  }
}
