import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { Ingestion, PolarTraceExporter } from '@polar-sh/ingestion'
import { DeltaTimeStrategy } from '@polar-sh/ingestion/strategies/DeltaTime'
import { LLMStrategy } from '@polar-sh/ingestion/strategies/LLM'
import { StreamStrategy } from '@polar-sh/ingestion/strategies/Stream'
import { eventually } from '../../harness/world.ts'
import type { Story } from '../run.ts'

type Model = ConstructorParameters<typeof LLMStrategy>[0]
type Answer = Awaited<ReturnType<Model['doGenerate']>>

/** A language model that always gives the same answer. */
const model: Model = {
  specificationVersion: 'v2',
  provider: 'acme',
  modelId: 'small',
  supportedUrls: {},
  doGenerate: () =>
    Promise.resolve({
      content: [{ type: 'text', text: 'Yes.' }],
      finishReason: 'stop',
      usage: { inputTokens: 10, outputTokens: 20, totalTokens: 30 },
      warnings: [],
    } satisfies Answer),
  doStream: () => Promise.reject(new Error('this model does not stream')),
}

type Spans = Parameters<PolarTraceExporter['export']>[0]
type Result = Parameters<Parameters<PolarTraceExporter['export']>[1]>[0]
/** A span of OpenTelemetry, with the fields that the exporter reads. */
const spanOf = (name: string, spanId: string, parent?: string) =>
  ({
    name,
    attributes: { externalCustomerId: 'ingestion', hits: 3 },
    spanContext: () => ({ spanId }),
    ...(parent === undefined ? {} : { parentSpanContext: { spanId: parent } }),
  }) as unknown as Spans[number]

/** Sends usage with the official ingestion client, by each of its ways, and counts it. */
export const ingestion: Story = async ({ world, clients, address }) => {
  const organization = await world.organization()
  const accessToken = (await organization.token()).secret.reveal()
  const current = clients.current(accessToken)
  const customer = await current.customers.create({ type: 'individual', email: 'ingestion@people.test', external_id: 'ingestion' } as never)
  const meterOf = (name: string, property: string) =>
    current.meters.create({
      name,
      filter: { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: name }] },
      aggregation: { func: 'sum', property },
    })
  const tokens = await meterOf('tokens', '_llm.total_tokens')
  const config = { accessToken, serverURL: address }

  const sent = await Ingestion(config).ingest([
    { name: 'page', customerId: customer.id, externalId: 'page-1', metadata: { bytes: 7 } },
    { name: 'page', customerId: customer.id, externalId: 'page-1', metadata: { bytes: 7 } },
  ])
  assert.deepEqual(sent, { inserted: 1, duplicates: 1 })

  const language = Ingestion(config)
    .strategy(new LLMStrategy(model))
    .cost(({ totalTokens }) => ({ amount: totalTokens * 0.0125, currency: 'usd' }))
    .ingest('tokens')
    .client({ externalCustomerId: 'ingestion' })
  await language.doGenerate({ prompt: [] })

  const start = Ingestion(config)
    .strategy(new DeltaTimeStrategy(() => 5))
    .ingest('work')
    .client({ customerId: customer.id })
  assert.equal(start()(), 0)
  const file = Ingestion(config)
    .strategy(new StreamStrategy<Readable>(Readable.from([Buffer.alloc(1000), Buffer.alloc(24)])))
    .ingest('download', ({ bytes }) => ({ bytes }))
    .client({ customerId: customer.id })
  for await (const _ of file);

  // The child ends first, so it arrives before its parent.
  const [child, parent] = [spanOf('search.step', 'b2', 'a1'), spanOf('search', 'a1')]
  for (const span of [child, parent]) {
    const { code, error } = await new Promise<Result>((done) => void new PolarTraceExporter(config).export([span], done))
    assert.equal(code, 0, error)
  }

  // Some of the strategies do not wait for the answer.
  const found = await eventually('all events are stored', async () => {
    const { items } = await current.events.list({ customer_id: customer.id, source: 'user', limit: 100 })
    return items.length === 6 && items
  })
  const metadataOf = (name: string) => found.find((event) => event.name === name)?.metadata as Record<string, unknown>
  assert.equal(metadataOf('work').deltaTime, 0)
  assert.equal(metadataOf('download').bytes, 1024)
  assert.equal(metadataOf('search').hits, 3)
  assert.equal(found.find(({ name }) => name === 'search')?.child_count, 1)
  const { _cost: cost } = metadataOf('tokens')
  assert.deepEqual(cost, { amount: '0.375', currency: 'usd' })
  const [balance] = (await current.customerMeters.list({ customer_id: customer.id, meter_id: tokens.id })).items
  assert.equal(balance?.consumed_units, 30)
}
