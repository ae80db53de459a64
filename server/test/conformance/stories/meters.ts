import assert from 'node:assert/strict'
import { createBenefitGrant } from '@bursar/contract'
import type { Story } from '../run.ts'

const rule = { conjunction: 'and' as const, clauses: [{ property: 'name', operator: 'eq' as const, value: 'call' }] }
const day = 86_400_000

/** Sends usage of a customer with credits, and reads its quantities and its balance, once with each client. */
export const meters: Story = async ({ world, clients }) => {
  const organization = await world.organization()
  const token = (await organization.token()).secret.reveal()
  const current = clients.current(token)
  const meter = await current.meters.create({ name: 'Calls', filter: rule, aggregation: { func: 'sum', property: '_llm.total_tokens' } })
  const customer = await current.customers.create({ email: 'meters@people.test', external_id: 'meters' })
  const benefit = await current.benefits.create({
    type: 'meter_credit',
    description: 'Tokens',
    properties: { units: 100, rollover: false, meter_id: meter.id },
  })
  const strict = clients.strict(token)
  await world.client({ token }).call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: benefit.id } })
  const llm = { vendor: 'acme', model: 'small', input_tokens: 10, output_tokens: 20, total_tokens: 30 }
  await current.events.ingest({ events: [{ name: 'call', external_customer_id: 'meters', metadata: { _llm: llm } }] })
  const now = world.clock.wall().getTime()
  const [start, end] = [new Date(now - day), new Date(now + day)]
  const chart = await current.meters.quantities(meter.id, {
    start_timestamp: start.toISOString(),
    end_timestamp: end.toISOString(),
    interval: 'day',
    timezone: 'Asia/Calcutta',
  })
  assert.equal(chart.total, 30)
  const [balance] = (await current.customerMeters.list({ customer_id: [customer.id] })).items
  assert.deepEqual([balance?.consumed_units, balance?.credited_units, balance?.balance], [30, 100, 70])
  assert.equal((await current.customerMeters.get(balance!.id)).meter.name, 'Calls')
  const session = await current.customerSessions.create({ customer_id: customer.id })
  const portal = clients.current(session.token).customerPortal.customerMeters
  assert.equal((await portal.list()).items[0]?.balance, 70)
  assert.equal((await portal.get(balance!.id)).meter.name, 'Calls')

  const same = await strict.meters.quantities({ id: meter.id, startTimestamp: start, endTimestamp: end, interval: 'hour', customerAggregationFunction: 'max' })
  assert.equal(same.total, 30)
  for await (const page of await strict.customerMeters.list({ externalCustomerId: 'meters' })) assert.equal(page.result.items[0]?.balance, 70)
  assert.equal((await strict.customerMeters.get({ id: balance!.id })).customer.email, 'meters@people.test')
  const anyone = { customerSession: session.token }
  for await (const page of await strict.customerPortal.customerMeters.list(anyone, {})) assert.equal(page.result.items[0]?.consumedUnits, 30)
  assert.equal((await strict.customerPortal.customerMeters.get(anyone, { id: balance!.id })).creditedUnits, 100)
}
