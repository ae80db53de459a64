import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import type { Log } from '../../platform/log.ts'
import { ProcessorRefusal, type Payments } from './payments.ts'
import { openStripe } from './stripe/processor.ts'
import { openTestProcessor, type TestProcessorOptions } from './test/processor.ts'

/**
 * Opens the processors of this deployment: Stripe for connected accounts, and in the sandbox the test processor for all
 * others.
 */
export const openPayments = (
  config: Config,
  { clock, log, misbehave }: { clock: Clock; log: Log; misbehave?: TestProcessorOptions['misbehave'] },
): Payments => {
  const stripe = openStripe({ base: config.stripe.api_base, clock })
  const test =
    config.environment === 'production'
      ? null
      : openTestProcessor({
          url: config.database_url,
          timeout_ms: config.database_timeout_ms,
          prepared: config.database_prepared,
          environment: config.environment,
          clock,
          log,
          ...(misbehave ? { misbehave } : {}),
        })
  return {
    preferred: test === null ? 'stripe' : 'test',
    of: ({ id, processor, secret, key }) => {
      if (processor === 'stripe' && key !== null) return stripe.account({ key, secret })
      if (processor === 'test' && test !== null) return test.account(id, secret)
      throw new Error(`this deployment cannot use the payment account ${id}`)
    },
    inspect: (key) => stripe.inspect(key),
    calls: async (secretOf) => {
      const calls = []
      for (const account_id of (await test?.waitingAccounts()) ?? []) {
        const secret = await secretOf(account_id)
        if (secret) for (const { headers, body } of await test!.account(account_id, secret).takeCallbacks(100)) calls.push({ account_id, headers, body })
      }
      return calls
    },
    playBank: async (intent_client_secret, confirms) => {
      try {
        await test?.completeAction(intent_client_secret, confirms)
      } catch (error) {
        // The 3-D Secure challenge was answered before or has expired. The processor's events report the result.
        if (!(error instanceof ProcessorRefusal)) throw error
      }
    },
    close: async () => {
      stripe.close()
      await test?.close()
    },
  }
}
