import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Stripe } from 'stripe'
import type { Secret } from '../../../kernel/secrets.ts'
import { seconds } from '../../../platform/clock.ts'
import { ProcessorRefusal, ProcessorSilent } from '../payments.ts'
import { stripeSdk } from './sdk.ts'

const kept = { keepAlive: true, maxFreeSockets: 16, timeout: 60 * seconds }

/**
 * Opens Stripe clients for the real API or a stand-in. The SDK does not retry, because the caller decides about
 * retries. The one exception is a request on a kept-alive connection that was just closed. The SDK sends this request
 * once more with the same key. Telemetry is off.
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
  let httpClient: ReturnType<typeof Stripe.createNodeHttpClient> | undefined
  return {
    open: (key: Secret): Stripe => {
      const Sdk = stripeSdk()
      httpClient ??= Sdk.createNodeHttpClient(agent)
      return new Sdk(key.reveal(), { ...address, httpClient, maxNetworkRetries: 0, timeout: timeout_ms, telemetry: false })
    },
    close: () => agent.destroy(),
  }
}

/** True for a decline by the bank. A decline is a normal response, and the intent contains its reason. */
export const isDecline = (error: unknown): error is Stripe.errors.StripeCardError => error instanceof stripeSdk().errors.StripeCardError

/**
 * Runs a call and maps its errors. `ProcessorRefusal`: Stripe did nothing, because the request was invalid.
 * `ProcessorSilent`: the result is unknown. This covers rejected keys, rate limits, concurrent requests with the same
 * key, and server or network errors.
 */
export const heard = async <T>(call: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    if (error instanceof RangeError) throw new ProcessorRefusal('amount_invalid', error.message)
    if (isDecline(error)) throw new ProcessorRefusal(error.decline_code ?? error.code ?? 'card_declined', error.message)
    if (error instanceof stripeSdk().errors.StripeInvalidRequestError || error instanceof stripeSdk().errors.StripeIdempotencyError) {
      const code = error.code ?? 'request_refused'
      // Omits Stripe's message, because it is meant for the seller and this error may reach the buyer.
      throw new ProcessorRefusal(code, `The payment processor rejected the request: ${code}.`)
    }
    if (error instanceof stripeSdk().errors.StripeError)
      throw new ProcessorSilent(call, { cause: new Error(`${error.type} ${error.statusCode ?? ''} ${error.code ?? ''}`) })
    throw error
  }
}

/** Returns the Stripe account of an API key. Throws `ProcessorRefusal` if Stripe rejects the key. */
export const inspectKey = async (client: Stripe): Promise<{ id: string }> => {
  try {
    const { id } = await client.accounts.retrieveCurrent()
    return { id }
  } catch (error) {
    if (error instanceof stripeSdk().errors.StripeAuthenticationError) throw new ProcessorRefusal('key_unknown', 'Stripe does not know this secret key.')
    if (error instanceof stripeSdk().errors.StripePermissionError)
      throw new ProcessorRefusal('key_restricted', 'This key lacks the permission to read its own Stripe account. Add it, or use another key.')
    return heard('inspect', () => Promise.reject(error as Error))
  }
}
