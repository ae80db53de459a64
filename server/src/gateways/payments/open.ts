import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import type { Log } from '../../platform/log.ts'
import type { Payments } from './payments.ts'
import { openTestProcessor, type TestProcessorOptions } from './test/processor.ts'

/** The processors of this deployment: in the sandbox the test processor; in production none that is built in yet. */
export const openPayments = (
  config: Config,
  { clock, log, misbehave }: { clock: Clock; log: Log; misbehave?: TestProcessorOptions['misbehave'] },
): Payments => {
  if (config.environment === 'production')
    return {
      preferred: null,
      of: () => {
        throw new Error('no processor is configured')
      },
      calls: async () => [],
      close: async () => undefined,
    }
  const test = openTestProcessor({ url: config.database_url, environment: config.environment, clock, log, ...(misbehave ? { misbehave } : {}) })
  return {
    preferred: 'test',
    of: ({ id, secret }) => test.account(id, secret),
    calls: async (secretOf) => {
      const calls = []
      for (const account_id of await test.waitingAccounts()) {
        const secret = await secretOf(account_id)
        if (secret) for (const { headers, body } of await test.account(account_id, secret).takeCallbacks(100)) calls.push({ account_id, headers, body })
      }
      return calls
    },
    close: () => test.close(),
  }
}
