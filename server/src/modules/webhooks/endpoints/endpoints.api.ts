import {
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  getWebhookEndpoint,
  getWebhookEndpointHealth,
  listWebhookEndpoints,
  paginate,
  resetWebhookSecret,
  revealWebhookSecret,
  updateWebhookEndpoint,
} from '@bursar/contract'
import { job, read, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { readHealth } from './health.ts'
import { listEndpoints } from './endpoints.sql.ts'
import * as endpoints from './endpoints.ts'
import type { Shown } from './endpoints.ts'

const whole = ({ endpoint, secret }: Shown) => endpoints.presentWebhookEndpoint(endpoint, secret)

export const operations = [
  read(getWebhookEndpointHealth, (db, { scope, params, query, platform }) => readHealth(db, platform.clock, scope, params.id, query)),
  read(listWebhookEndpoints, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await listEndpoints(db, confine(scope, 'organization:manage'), query)
    return paginate(
      query,
      items.map((row) => endpoints.presentWebhookEndpoint(row)),
      total,
      next_cursor,
    )
  }),
  write(createWebhookEndpoint, async (tx, { scope, body, platform }) => whole(await endpoints.createWebhookEndpoint(tx, scope, platform, body))),
  read(getWebhookEndpoint, async (db, { scope, params }) => endpoints.presentWebhookEndpoint(await endpoints.requireWebhookEndpoint(db, scope, params.id))),
  write(updateWebhookEndpoint, async (tx, { scope, params, body, platform }) =>
    endpoints.presentWebhookEndpoint(await endpoints.updateWebhookEndpoint(tx, scope, platform, params.id, body)),
  ),
  write(deleteWebhookEndpoint, (tx, { scope, params }) => endpoints.deleteWebhookEndpoint(tx, scope, params.id)),
  write(resetWebhookSecret, async (tx, { scope, params, query, platform }) => whole(await endpoints.rotate(tx, scope, platform, params.id, query.overlap))),
  write(revealWebhookSecret, async (tx, { scope, params, platform }) => whole(await endpoints.reveal(tx, scope, platform, params.id))),
]

export const jobs = [job('mail.webhook_paused', endpoints.mailPaused)]
