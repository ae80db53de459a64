import {
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  getWebhookEndpoint,
  listWebhookEndpoints,
  paginate,
  resetWebhookSecret,
  revealWebhookSecret,
  updateWebhookEndpoint,
} from '@bursar/contract'
import { job, read, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listEndpoints } from './endpoints.sql.ts'
import { create, find, mailPaused, present, remove, reveal, rotate, update, type Shown } from './endpoints.ts'

const whole = ({ endpoint, secret }: Shown) => present(endpoint, secret)

export const operations = [
  read(listWebhookEndpoints, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await listEndpoints(db, confine(reach, 'organization:manage'), query)
    return paginate(
      query,
      items.map((row) => present(row)),
      total,
      next_cursor,
    )
  }),
  write(createWebhookEndpoint, async (tx, { reach, body, platform }) => whole(await create(tx, reach, platform, body))),
  read(getWebhookEndpoint, async (db, { reach, params }) => present(await find(db, reach, params.id))),
  write(updateWebhookEndpoint, async (tx, { reach, params, body, platform }) => present(await update(tx, reach, platform, params.id, body))),
  write(deleteWebhookEndpoint, (tx, { reach, params }) => remove(tx, reach, params.id)),
  write(resetWebhookSecret, async (tx, { reach, params, query, platform }) => whole(await rotate(tx, reach, platform, params.id, query.overlap))),
  write(revealWebhookSecret, async (tx, { reach, params, platform }) => whole(await reveal(tx, reach, platform, params.id))),
]

export const jobs = [job('mail.webhook_paused', mailPaused)]
