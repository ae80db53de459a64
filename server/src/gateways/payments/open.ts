import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import type { Log } from '../../platform/log.ts'
import { ProcessorRefusal, type Payments } from './payments.ts'
import { openStripe } from './stripe/processor.ts'
import { openTestProcessor, type TestProcessorOptions } from './test/processor.ts'

/** The processors of this deployment: Stripe, for accounts that were connected, and in the sandbox the test processor for all others. */
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
          patience_ms: config.database_patience_ms,
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
        // Answered before, or too late: what became of it is told by the processor.
        if (!(error instanceof ProcessorRefusal)) throw error
      }
    },
    close: async () => {
      stripe.close()
      await test?.close()
    },
  }
}
