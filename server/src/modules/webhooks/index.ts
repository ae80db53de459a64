import { daemon, type Area } from '../handlers.ts'
import { deliver } from './deliveries/deliveries.ts'
import * as endpoints from './endpoints/endpoints.api.ts'
import * as events from './events/events.api.ts'

export const area: Area = {
  operations: [...endpoints.operations, ...events.operations],
  jobs: endpoints.jobs,
  sweeps: events.sweeps,
  periodicTasks: events.periodicTasks,
  daemons: [daemon('webhooks.deliver', deliver)],
  secret: { webhook_endpoints: ['secret_sealed', 'secret_hint', 'previous_sealed'], events: ['secrets_sealed'] },
}

export { createWebhookEndpoint } from './endpoints/endpoints.ts'
export { sign, signingKeys } from './deliveries/signing.ts'
