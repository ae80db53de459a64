import {
  getWebhookReplay,
  listEvents,
  listWebhookDeliveries,
  paginate,
  previewWebhookEvent,
  redeliverWebhookEvent,
  replayWebhookEndpoint,
} from '@bursar/contract'
import { periodicTask, read, sweep, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listAttempts } from './events.sql.ts'
import { maintainEvents, presentAttempt, readLog, redeliver, replay, stepReplay, watchReplay } from './events.ts'
import { preview } from './previews.ts'

export const operations = [
  read(listWebhookDeliveries, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await listAttempts(db, confine(scope, 'organization:manage'), query)
    return paginate(query, items.map(presentAttempt), total, next_cursor)
  }),
  read(listEvents, (db, { scope, query, joinWaiters }) => readLog(db, scope, query, joinWaiters)),
  write(redeliverWebhookEvent, async (tx, { scope, params }) => ({ deliveries: await redeliver(tx, scope, params.id) })),
  read(previewWebhookEvent, (db, { scope, params }) => preview(db, scope, params.id)),
  write(replayWebhookEndpoint, (tx, { scope, params, body }) => replay(tx, scope, params.id, body)),
  read(getWebhookReplay, (db, { scope, params }) => watchReplay(db, scope, params.id, params.replay_id)),
]

export const sweeps = [sweep('webhooks.replay', stepReplay)]
export const periodicTasks = [periodicTask('webhooks.keep', maintainEvents)]
