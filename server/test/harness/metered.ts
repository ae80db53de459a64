import { ingestEvents } from '@bursar/contract'
import { mergeUsage } from '../../src/modules/usage/index.ts'
import type { openDeployment } from './crashes.ts'
import { day, type openPlans, type Plan } from './plans.ts'
import type { World } from './world.ts'

interface PeriodSeen {
  readonly id: string
  readonly subscription_id: string
  readonly starts_at: Date
  readonly ends_at: Date | null
  readonly billed_quantity: string
  readonly billed_amount: number
  readonly unbilled_amount: number
  readonly is_unsettled: boolean
  readonly final_at: Date | null
  readonly due_at: Date | null
}

/** Returns functions that send usage of plans with a meter called `Calls`, and read the lines and periods of this usage. */
export const openMetered = (world: World, deployment: Awaited<ReturnType<typeof openDeployment>>, plans: ReturnType<typeof openPlans>) => {
  const owner = <T extends object>(statement: string, values: unknown[] = []) =>
    world.database.owner(async (client) => (await client.query<T>(statement, values)).rows)
  const linesOf = async (plan: Plan, id = plan.id) => (await plan.orders(id)).map(({ items }) => items.map(({ label, amount }) => [label, amount] as const))
  return {
    owner,
    linesOf,
    /** Sends usage of a plan's customer. By default, the usage happens now. */
    use: async (plan: Plan, units: number | readonly number[], at = world.clock.business()) => {
      const events = [units].flat().map((one) => ({ name: 'call', customer_id: plan.customer.id, timestamp: at.toISOString(), metadata: { units: one } }))
      await plan.api.call(ingestEvents, { body: { events } })
    },
    merge: () => mergeUsage(deployment.deps),
    /** Advances past the end of the period and runs everything that is due then. */
    renewed: async (plan: Plan) => {
      await plans.until(await plan.end())
      await plans.until(world.clock.business())
    },
    days: (count: number) => plans.until(new Date(world.clock.business().getTime() + count * day)),
    /** The amounts of the lines of usage, by order. */
    usageOf: async (plan: Plan, id = plan.id) =>
      (await linesOf(plan, id)).map((lines) => lines.filter(([label]) => label.startsWith('Calls')).map(([, amount]) => amount)),
    periodsOf: (plan: Plan) =>
      owner<PeriodSeen>(
        `select id, subscription_id, starts_at, ends_at, billed_quantity::text as billed_quantity, billed_amount::int as billed_amount,
           unbilled_amount::int as unbilled_amount, is_unsettled, final_at, due_at
         from usage_periods where customer_id = $1 order by starts_at, ends_at`,
        [plan.customer.id],
      ),
  }
}
