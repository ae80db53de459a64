import assert from 'node:assert/strict'
import { contractKinds } from '@bursar/contract'
import { webhooks as currentWebhooks } from 'polar-sdk/2026-04'
import { validateEvent } from 'polar-sdk-strict/webhooks'
import { openSink } from '../../harness/sink.ts'
import { eventually } from '../../harness/world.ts'
import type { Story } from '../run.ts'

/** Subscribes to every event, receives them and has them redelivered. */
export const webhooks: Story = async ({ world, clients }) => {
  const sink = await openSink()
  const { organization } = await world.shop()
  const token = (await organization.token()).secret.reveal()
  const current = clients.current(token)
  const strict = clients.strict(token)

  const endpoint = await current.webhooks.createWebhookEndpoint({ url: sink.url('/current'), format: 'raw', events: [...contractKinds] })
  assert.match(endpoint.secret, /^whsec_/)
  assert.equal((await current.webhooks.getWebhookEndpoint(endpoint.id)).url, sink.url('/current'))
  assert.equal((await current.webhooks.updateWebhookEndpoint(endpoint.id, { name: 'Mine' })).name, 'Mine')
  assert.equal((await current.webhooks.listWebhookEndpoints()).items.length, 1)
  const { secret } = await current.webhooks.resetWebhookEndpointSecret(endpoint.id)

  await current.customers.create({ email: 'hooks@people.test' })
  const [first] = await sink.until('/current', 2)
  const event = await currentWebhooks.validateEvent(first!.body, first!.headers, secret)
  assert.equal(event.type, 'customer.created')
  const delivered = await eventually(
    'the delivery attempt is recorded',
    async () => (await current.webhooks.listWebhookDeliveries({ succeeded: true })).items[0],
  )
  await current.webhooks.redeliverWebhookEvent(delivered.webhook_event.id)
  await sink.until('/current', 3)
  await current.webhooks.deleteWebhookEndpoint(endpoint.id)

  const made = await strict.webhooks.createWebhookEndpoint({ url: sink.url('/strict'), format: 'raw', events: ['customer.created', 'member.created'] })
  assert.equal((await strict.webhooks.getWebhookEndpoint({ id: made.id })).format, 'raw')
  await strict.webhooks.updateWebhookEndpoint({ id: made.id, webhookEndpointUpdate: { events: ['customer.created'] } })
  for await (const page of await strict.webhooks.listWebhookEndpoints({})) assert.equal(page.result.items.length, 1)
  const reset = await strict.webhooks.resetWebhookEndpointSecret({ id: made.id })
  await strict.customers.create({ type: 'individual', email: 'hooks2@people.test' })
  const [seen] = await sink.until('/strict', 1)
  assert.equal(validateEvent(seen!.body, seen!.headers, reset.secret).type, 'customer.created')
  await eventually('the delivery attempt is recorded', async () => {
    for await (const page of await strict.webhooks.listWebhookDeliveries({ endpointId: made.id })) return page.result.items.length > 0
  })
  await strict.webhooks.redeliverWebhookEvent({ id: seen!.headers['webhook-id']! })
  await sink.until('/strict', 2)
  await strict.webhooks.deleteWebhookEndpoint({ id: made.id })
  sink.close()
}
