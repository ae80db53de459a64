import { openApi } from '../../server/src/main/wire.ts'
import { noAudit } from '../../server/src/platform/audit/audit.ts'
import { systemClock } from '../../server/src/platform/clock.ts'
import { readConfig } from '../../server/src/platform/config.ts'
import { openLog } from '../../server/src/platform/log.ts'
import { openTelemetry } from '../../server/src/platform/telemetry.ts'
import { openBare } from './bare.ts'

/** Serves one side of a comparison: the product as it is, the product without one stage, or the bare handlers. */
const side = process.argv[2]
const config = readConfig(process.env)
const log = openLog('silent')
const base = { config, clock: systemClock, log, telemetry: openTelemetry() }

const listen = async (): Promise<string> => {
  if (side === 'product') return (await openApi(base)).server.listen(config.listen)
  if (side === 'unbudgeted')
    return (
      await openApi(base, {
        budgets: {
          isLate: () => false,
          spend: async () => ({}),
          spendUnits: async () => ({}),
          spendTogether: async () => ({}),
          look: async () => {},
          reserve: async () => ({ keep: async () => {}, giveBack: async () => {} }),
        },
      })
    ).server.listen(config.listen)
  if (side === 'unaudited') return (await openApi(base, { audit: noAudit })).server.listen(config.listen)
  return openBare(config, log).listen(config.listen)
}

const address = await listen()
console.log(JSON.stringify({ port: Number(new URL(address).port) }))
process.on('SIGINT', () => process.exit(0))
