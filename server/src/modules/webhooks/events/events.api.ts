import {
  getWebhookReplay,
  listEvents,
  listWebhookDeliveries,
  paginate,
  previewWebhookEvent,
  redeliverWebhookEvent,
  replayWebhookEndpoint,
} from '@bursar/contract'
import { chore, read, sweep, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listAttempts } from './events.sql.ts'
import { keep, presentAttempt, readLog, redeliver, replay, stepReplay, watchReplay } from './events.ts'
import { preview } from './previews.ts'

export const operations = [
  read(listWebhookDeliveries, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await listAttempts(db, confine(reach, 'organization:manage'), query)
    return paginate(query, items.map(presentAttempt), total, next_cursor)
  }),
  read(listEvents, (db, { reach, query }) => readLog(db, reach, query)),
  write(redeliverWebhookEvent, async (tx, { reach, params }) => ({ deliveries: await redeliver(tx, reach, params.id) })),
  read(previewWebhookEvent, (db, { reach, params }) => preview(db, reach, params.id)),
  write(replayWebhookEndpoint, (tx, { reach, params, body }) => replay(tx, reach, params.id, body)),
  read(getWebhookReplay, (db, { reach, params }) => watchReplay(db, reach, params.id, params.replay_id)),
]

export const sweeps = [sweep('webhooks.replay', stepReplay)]
export const chores = [chore('webhooks.keep', keep)]
