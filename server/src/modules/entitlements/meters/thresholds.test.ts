import {
  correctEvents,
  createBenefit,
  createBenefitGrant,
  createMeter,
  ingestEvents,
  updateCustomer,
  updateOrganization,
  updateProductBenefits,
  type Aggregation,
  type OrganizationCustomerEmailSettings,
  type UsageThreshold,
} from '@bursar/contract'
import type { z } from 'zod'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { openMetered } from '../../../../test/harness/metered.ts'
import { openPlans, type Plan } from '../../../../test/harness/plans.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { claim } from '../../../platform/jobs/leases.sql.ts'
import { refreshCustomerMeter } from './refreshing.ts'
import { mailUsageThreshold } from './threshold-mails.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
let plans: ReturnType<typeof openPlans>
let metered: ReturnType<typeof openMetered>
beforeAll(async () => {
  world = await openWorld()
  deployment = await openDeployment(world, openLife(null))
  plans = openPlans(world, deployment)
  metered = openMetered(world, deployment, plans)
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})
beforeEach(() => plans.retire())

const aggregation: Aggregation = { func: 'sum', property: 'units' }
/** One unit costs 0.10, and usage costs at most 10.00 in a period. */
const capped = { meter: { aggregation, unit_amount: '10', cap_amount: 1000 } }
const uncapped = { meter: { aggregation, unit_amount: '10' } }

/** Merges usage and refreshes the customer meters. */
const settle = async () => {
  await metered.merge()
  await deployment.sweep('usage.backfill_meters', 'entitlements.refresh_meters')
}
/** Uses units one after the other, and refreshes the customer meters after each use. */
const use = async (plan: Plan, ...units: readonly number[]) => {
  for (const one of units) {
    await metered.use(plan, one)
    await settle()
  }
}
/** Gives each period of the plan a credit of units. */
const credit = async (plan: Plan, units: number, rollover = false) => {
  const { id } = await plan.api.call(createBenefit, {
    body: { type: 'meter_credit', description: 'Included calls', properties: { meter_id: plan.meter_id!, units, rollover } } as never,
  })
  await plan.api.call(updateProductBenefits, { params: { id: plan.product.id }, body: { benefits: [id] } })
  await plans.pass()
}
/** Gives the customer units that belong to no period. */
const grant = async (plan: Plan, units: number) => {
  const benefit = await plan.api.call(createBenefit, {
    body: { type: 'meter_credit', description: 'More calls', properties: { meter_id: plan.meter_id!, units, rollover: false } },
  })
  await plan.api.call(createBenefitGrant, { body: { customer_id: plan.customer.id, benefit_id: benefit.id } })
  await plans.pass()
}
const told = async (plan: Pick<Plan, 'events'>) => (await plan.events('usage.threshold_reached')).map(({ data }) => data as unknown as UsageThreshold)
const short = async (plan: Plan) => (await told(plan)).map(({ basis, percent, consumed, limit }) => [basis, percent, consumed, limit])

/** Sends the waiting mails about thresholds. Returns those to the customer of the plan. */
const mails = async (plan: Plan) => {
  const waiting = await metered.owner<{ payload: { organization_id: string; threshold_id: string } }>(
    `with gone as (delete from graphile_worker._private_jobs j using graphile_worker._private_tasks t
       where t.id = j.task_id and t.identifier = 'mail.usage_threshold' returning j.payload) select payload from gone`,
  )
  for (const { payload } of waiting) await mailUsageThreshold(deployment.deps, payload)
  const own = world.mail.letters.filter(({ to }) => to === plan.customer.email)
  for (const letter of own) world.mail.letters.splice(world.mail.letters.indexOf(letter), 1)
  // Amounts have a space that does not break.
  return own.map(({ subject, text }) => ({ subject, text: text.trim().replaceAll('\u00a0', ' ') }))
}

test('emits each threshold of the credits once, with the numbers of the customer meter', async () => {
  const plan = await plans.open(uncapped)
  await plan.api.call(updateCustomer, { params: { id: plan.customer.id }, body: { external_id: 'ada' } })
  await credit(plan, 10)
  await use(plan, 4, 1, 1, 2, 2, 5)
  const { current_period_start, current_period_end } = await plan.seen()
  const [first, ...others] = await told(plan)
  expect(first).toEqual({
    id: expect.any(String) as string,
    customer_id: plan.customer.id,
    external_customer_id: 'ada',
    subscription_id: plan.id,
    meter_id: plan.meter_id,
    meter_name: 'Calls',
    basis: 'credits',
    percent: 50,
    consumed: 5,
    limit: 10,
    currency: null,
    period_start: current_period_start,
    period_end: current_period_end,
  })
  expect(others.map(({ id, percent, consumed }) => [id, percent, consumed])).toEqual([
    [first!.id, 80, 8],
    [first!.id, 100, 10],
  ])
})

test('emits each threshold of the cap once, with amounts', async () => {
  const plan = await plans.open(capped)
  await use(plan, 40, 10, 30, 20, 50)
  const shared = { basis: 'cap', limit: 1000, currency: 'usd', subscription_id: plan.id, period_end: (await plan.seen()).current_period_end }
  expect(await told(plan)).toMatchObject([
    { percent: 50, consumed: 500, ...shared },
    { percent: 80, consumed: 800, ...shared },
    { percent: 100, consumed: 1000, ...shared },
  ])
})

test('counts credits before the cap', async () => {
  const plan = await plans.open(capped)
  await credit(plan, 10)
  await use(plan, 10, 50, 50)
  expect(await short(plan)).toEqual([
    ['credits', 100, 10, 10],
    ['cap', 50, 500, 1000],
    ['cap', 100, 1000, 1000],
  ])
})

test('emits only the highest threshold if several are reached at once, and none of the lower ones later', async () => {
  const plan = await plans.open(uncapped)
  await credit(plan, 10)
  await use(plan, 9)
  await use(plan, 0.5, 0.5)
  expect(await short(plan)).toEqual([
    ['credits', 80, 9, 10],
    ['credits', 100, 10, 10],
  ])
})

test('a new period begins anew, for credits and for the cap', async () => {
  const plan = await plans.open(capped)
  await credit(plan, 10)
  await use(plan, 110)
  await metered.renewed(plan)
  await plans.pass()
  await use(plan, 4)
  expect((await short(plan)).slice(2)).toEqual([])
  await use(plan, 1, 55)
  expect((await short(plan)).slice(2)).toEqual([
    ['credits', 50, 5, 10],
    ['credits', 100, 60, 10],
    ['cap', 50, 500, 1000],
  ])
})

test('late usage of an earlier period reaches no threshold', async () => {
  const plan = await plans.open(capped)
  const early = world.clock.business()
  await use(plan, 1)
  await metered.renewed(plan)
  await metered.use(plan, 500, early)
  await settle()
  expect(await told(plan)).toEqual([])
})

test('emits nothing without credits and without a cap', async () => {
  const plan = await plans.open(uncapped)
  await use(plan, 1_000_000)
  expect(await told(plan)).toEqual([])
  expect(await metered.owner('select from usage_thresholds where organization_id = $1', [plan.organization.id])).toEqual([])
})

test('a correction that lowers usage does not repeat a threshold', async () => {
  const plan = await plans.open(capped)
  await plan.api.call(ingestEvents, { body: { events: [{ name: 'call', external_id: 'wrong', customer_id: plan.customer.id, metadata: { units: 90 } }] } })
  await settle()
  await plan.api.call(correctEvents, { body: { corrections: [{ action: 'void', event_id: 'wrong', reason: 'sent by mistake' }] } as never })
  await settle()
  await use(plan, 60, 20, 20)
  expect(await short(plan)).toEqual([
    ['cap', 80, 900, 1000],
    ['cap', 100, 1000, 1000],
  ])
})

test('credits without a subscription have thresholds, and a top-up lets them be reached again', async () => {
  const plan = await plans.open()
  const meter = await plan.api.call(createMeter, { body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation } })
  const alone = { ...plan, meter_id: meter.id }
  await grant(alone, 10)
  await use(alone, 10)
  expect(await told(alone)).toMatchObject([{ basis: 'credits', percent: 100, subscription_id: null, period_start: null, period_end: null }])
  await grant(alone, 30)
  await settle()
  await use(alone, 5, 30)
  expect((await short(alone)).slice(1)).toEqual([['credits', 100, 45, 40]])
})

test('usage before and after another plan adds up, because the cap of a price holds for the billing period', async () => {
  const plan = await plans.open(capped)
  const other = await plan.sell(2900)
  await use(plan, 60)
  await metered.days(2)
  await plan.change({ product_id: other.id, proration_behavior: 'invoice' })
  await metered.days(2)
  await plan.change({ product_id: plan.product.id, proration_behavior: 'invoice' })
  await use(plan, 20, 20)
  expect(await short(plan)).toEqual([
    ['cap', 50, 600, 1000],
    ['cap', 80, 800, 1000],
    ['cap', 100, 1000, 1000],
  ])
})

test('two workers that refresh a customer meter at the same time emit one event', async () => {
  const plan = await plans.open(uncapped)
  await credit(plan, 10)
  for (let round = 0; round < 5; round++) {
    await metered.use(plan, 2)
    await metered.merge()
    const take = () => claim(deployment.deps.transact, 'customer_meters', { holder: 'test', limit: 1000, lease_ms: 30_000 })
    const leases = (await Promise.all([take(), take()])).flat()
    // The second run of each lease is that of a worker which was suspended and comes back.
    await Promise.allSettled([...leases, ...leases].map((lease) => refreshCustomerMeter(deployment.deps, lease)))
  }
  expect((await short(plan)).map(([, percent]) => percent)).toEqual([50, 80, 100])
})

test('mails the customer in English at 80 and 100 percent of the credits, and says what further usage costs', async () => {
  const plan = await plans.open({ meter: { aggregation, unit_amount: '2.5' } })
  await plan.api.call(updateCustomer, { params: { id: plan.customer.id }, body: { locale: 'en' } })
  await credit(plan, 2000)
  await use(plan, 1000)
  expect(await mails(plan)).toEqual([])
  await use(plan, 600.5)
  const { name, slug } = plan.organization
  const until = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long', timeZone: 'UTC' }).format(await plan.end())
  const end = `See your usage:\nhttps://bursar.test/${slug}/portal/usage\n\n-- \nQuestions? Write to ${name}.\nSent by Bursar for ${name}.`
  const head = '[Sandbox: a test. No real money moves.]\n\nCalls: 80% of your included usage is used'
  expect(await mails(plan)).toEqual([
    {
      subject: 'Calls: 80% of your included usage is used',
      text: `${head}\n\nUsage beyond the included amount costs $0.025 per unit.\n\nUsed: 1,600.5 units\nIncluded: 2,000 units\nUntil: ${until}\n\n${end}`,
    },
  ])
  await use(plan, 400)
  expect(await mails(plan)).toMatchObject([
    { subject: 'Calls: 100% of your included usage is used', text: expect.stringContaining('Further usage costs $0.025 per unit.') as string },
  ])
})

test('mails the customer in German at 80 and 100 percent of the cap, and says that nothing more is charged', async () => {
  const plan = await plans.open(capped)
  await plan.api.call(updateCustomer, { params: { id: plan.customer.id }, body: { locale: 'de-AT' } })
  await use(plan, 80)
  const { name, slug } = plan.organization
  const until = new Intl.DateTimeFormat('de-DE', { dateStyle: 'long', timeZone: 'UTC' }).format(await plan.end())
  expect(await mails(plan)).toEqual([
    {
      subject: 'Calls: 80 % Ihres Ausgabenlimits sind erreicht',
      text: `[Sandbox: ein Test. Es fließt kein echtes Geld.]\n\nCalls: 80 % Ihres Ausgabenlimits sind erreicht\n\nSobald das Limit erreicht ist, wird weitere Nutzung in diesem Zeitraum nicht berechnet.\n\nKosten bisher, vor Rabatten und Steuern: 8,00 $\nAusgabenlimit: 10,00 $\nBis: ${until}\n\nNutzung ansehen:\nhttps://bursar.test/${slug}/portal/usage\n\n-- \nFragen? Schreiben Sie an ${name}.\nVersendet von Bursar im Auftrag von ${name}.`,
    },
  ])
  await use(plan, 20)
  expect(await mails(plan)).toMatchObject([
    {
      subject: 'Calls: 100 % Ihres Ausgabenlimits sind erreicht',
      text: expect.stringContaining('Weitere Nutzung in diesem Zeitraum wird nicht berechnet.') as string,
    },
  ])
})

test('mails once if several thresholds are reached before the mail is sent', async () => {
  const plan = await plans.open(capped)
  await use(plan, 80, 20)
  expect((await mails(plan)).map(({ subject }) => subject.includes('100'))).toEqual([true])
})

test('sends no mail if the seller has disabled it, and keeps this setting when an older client saves the others', async () => {
  const plan = await plans.open(capped)
  const settings = async (usage_threshold?: boolean) => {
    const params = { id: plan.organization.id }
    const [row] = await metered.owner<{ own: z.output<typeof OrganizationCustomerEmailSettings> }>(
      'select customer_email_settings as own from organizations where id = $1',
      [params.id],
    )
    const { usage_threshold: _, ...others } = row!.own
    const customer_email_settings = { ...others, ...(usage_threshold === undefined ? {} : { usage_threshold }) }
    return (await plan.api.call(updateOrganization, { params, body: { customer_email_settings } })).customer_email_settings
  }
  expect(await settings(false)).toMatchObject({ usage_threshold: false })
  expect(await settings()).toMatchObject({ usage_threshold: false })
  await use(plan, 100)
  expect(await told(plan)).toHaveLength(1)
  expect(await mails(plan)).toEqual([])
})

test('links no usage page that the seller hides', async () => {
  const plan = await plans.open(capped)
  await metered.owner(`update organizations set customer_portal_settings = jsonb_set(customer_portal_settings, '{usage,show}', 'false') where id = $1`, [
    plan.organization.id,
  ])
  await use(plan, 100)
  const [mail] = await mails(plan)
  expect(mail!.text).not.toContain('/portal/usage')
})
