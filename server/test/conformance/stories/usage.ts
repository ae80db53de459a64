import assert from 'node:assert/strict'
import { correctEvents } from '@bursar/contract'
import type { Story } from '../run.ts'

/** Sends usage events with parents, costs and calls of language models, and reads them back. */
export const usage: Story = async ({ world, clients }) => {
  const organization = await world.organization()
  const token = (await organization.token()).secret.reveal()

  const current = clients.current(token)
  const customer = await current.customers.create({ type: 'individual', email: 'usage@people.test', external_id: 'usage-1' } as never)
  const sent = await current.events.ingest({
    events: [
      { name: 'chat', customer_id: customer.id, external_id: 'chat-1', metadata: { model: 'large', tokens: 12 } },
      {
        name: 'chat.step',
        external_customer_id: 'usage-1',
        external_id: 'step-1',
        parent_id: 'chat-1',
        metadata: {
          _cost: { amount: '0.000125', currency: 'usd' },
          _llm: { vendor: 'v', model: 'm', prompt: 'p', response: 'r', input_tokens: 1, output_tokens: 2, total_tokens: 3 },
        },
      },
      { name: 'chat', external_customer_id: 'not-yet', external_id: 'chat-1' },
    ],
  })
  assert.deepEqual(sent, { inserted: 2, duplicates: 1 })
  const { items } = await current.events.list({ customer_id: customer.id, sorting: ['timestamp'] })
  assert.deepEqual(items.map(({ name }) => name).toSorted(), ['chat', 'chat.step', 'customer.created'])
  const chat = items.find(({ name }) => name === 'chat')!
  assert.equal((await current.events.get(chat.id)).child_count, 1)
  const [step] = (await current.events.list({ parent_id: chat.id })).items
  const { _cost: cost } = step!.metadata as { _cost?: unknown }
  assert.deepEqual(cost, { amount: '0.000125', currency: 'usd' })
  assert.equal((await current.events.listNames({ sorting: ['name'] })).items[0]!.occurrences, 1)
  const types = await current.eventTypes.list({ sorting: ['name'] })
  assert.equal((await current.eventTypes.update(types.items[0]!.id!, { label: 'Chats' })).label, 'Chats')

  const strict = clients.strict(token)
  const again = await strict.events.ingest({
    events: [
      { name: 'upload', externalCustomerId: 'usage-1', externalId: 'upload-1', timestamp: new Date('2026-01-02T03:04:05Z') },
      { name: 'upload', customerId: customer.id, externalId: 'chat-1' },
    ],
  })
  assert.deepEqual(again, { inserted: 1, duplicates: 1 })
  const listed = await strict.events.list({ limit: 2, sorting: ['timestamp'] })
  assert.equal(listed.items[0]!.name, 'upload')
  assert.equal((await strict.events.get({ id: chat.id })).label, 'Chats')
  for await (const page of await strict.events.listNames({})) assert.equal(page.result.items.length, 4)
  // Both clients read system events.
  const [own] = (await current.events.list({ source: 'system' })).items
  assert.deepEqual([own!.name, own!.label], ['customer.created', 'Customer Created'])
  const [same] = (await strict.events.list({ source: 'system' })).items
  assert.deepEqual([same!.id, same!.source, same!.name], [own!.id, 'system', 'customer.created'])
  for await (const page of await strict.eventTypes.list({ query: 'chats' }))
    for (const { id } of page.result.items) await strict.eventTypes.update({ id, eventTypeUpdate: { label: 'Talks', labelPropertySelector: 'model' } })
  assert.equal((await strict.events.get({ id: chat.id })).label, 'large')

  // The clients do not know corrections. Both must still read a corrected event, and lists without it.
  const corrections = [{ action: 'void' as const, event_id: 'upload-1', reason: 'mistake' }]
  const corrected = await world.client({ token }).call(correctEvents, { body: { corrections } })
  const { event_id: id } = corrected.corrections[0]!
  assert.equal((await current.events.get(id)).name, 'upload')
  assert.equal((await strict.events.get({ id })).name, 'upload')
  assert.deepEqual((await current.events.list({ name: 'upload' })).items, [])
  assert.deepEqual((await strict.events.list({ name: 'upload' })).items, [])
}
