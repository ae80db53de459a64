import {
  defaultVersion,
  InvalidRequest,
  ResourceNotFound,
  type WebhookEndpoint,
  type WebhookEndpointCreate,
  type WebhookEndpointUpdate,
} from '@bursar/contract'
import type { z } from 'zod'
import { readTarget, TargetRefused } from '../../../gateways/egress/targets.ts'
import type { Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newWebhookSecret, webhookHint, type Secret } from '../../../kernel/secrets.ts'
import { later, seconds } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { wake } from '../../../platform/outbox/outbox.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { managersOf } from '../../identity/index.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { parkAll, resumeAll, skipAll, skipKinds } from '../deliveries/deliveries.sql.ts'
import { changeEndpoint, countEndpoints, findEndpoint, findPaused, insertEndpoint, lockEndpoint, type EndpointRow } from './endpoints.sql.ts'

const most = 50

/** The endpoint as the wire shows it. Its secret is whole only where it was asked for. */
export const present = (row: EndpointRow, secret?: Secret): WebhookEndpoint => ({ ...row, secret: secret?.reveal() ?? row.secret_hint })

export interface Shown {
  readonly endpoint: EndpointRow
  readonly secret: Secret
}

/** An endpoint that exists leads to a public address, has a secret of its own, and keeps to the version it was made in. */
export const create = async (tx: Tx, reach: Reach, platform: Platform, body: z.output<typeof WebhookEndpointCreate>): Promise<Shown> => {
  const organization_id = chooseOrganization(reach, body.organization_id ?? undefined)
  permit(reach, organization_id, 'organization:manage')
  checkTarget(platform, body.url, 'url')
  if ((await countEndpoints(tx, organization_id)) >= most)
    throw new InvalidRequest({ loc: ['body'], msg: `An organization has ${most} endpoints at most. Delete one that is not used.`, type: 'value_error' })
  const id = newId(tx.clock.wall())
  const secret = newWebhookSecret()
  const endpoint = await insertEndpoint(tx, {
    organization_id,
    id,
    created_at: tx.clock.wall(),
    modified_at: null,
    deleted_at: null,
    url: body.url,
    name: body.name || null,
    format: body.format,
    events: body.events,
    enabled: true,
    strict: body.strict,
    migration_events: body.migration_events ?? false,
    api_version: defaultVersion,
    paused_reason: null,
    failing_since: null,
    secret_sealed: platform.sealer.seal(secret, id),
    secret_hint: webhookHint(secret),
    previous_sealed: null,
    previous_secret_until: null,
  })
  return { endpoint, secret }
}

export const find = async (db: Db, reach: Reach, id: string): Promise<EndpointRow> => {
  const endpoint = await findEndpoint(db, reach, id)
  if (!endpoint) throw new ResourceNotFound()
  permit(reach, endpoint.organization_id, 'organization:manage')
  return endpoint
}

const hold = async (tx: Tx, reach: Reach, id: string): Promise<Locked<EndpointRow>> => {
  const endpoint = await lockEndpoint(tx, reach, id)
  if (!endpoint) throw new ResourceNotFound()
  permit(reach, endpoint.organization_id, 'organization:manage')
  return endpoint
}

/** What is no longer wanted is not sent, also where it was waiting; what was missed while it was off is sent when it is on again, in order. */
export const update = async (tx: Tx, reach: Reach, platform: Platform, id: string, body: z.output<typeof WebhookEndpointUpdate>): Promise<EndpointRow> => {
  const endpoint = await hold(tx, reach, id)
  if (body.url) checkTarget(platform, body.url, 'url')
  const resumed = body.enabled === true && !endpoint.enabled
  const paused = body.enabled === false && endpoint.enabled
  if (resumed && !body.url) checkTarget(platform, endpoint.url, 'enabled')
  const changed = await changeEndpoint(tx, endpoint, {
    modified_at: tx.clock.wall(),
    ...(body.url ? { url: body.url } : {}),
    ...(body.name === undefined || body.name === null ? {} : { name: body.name || null }),
    ...(body.format ? { format: body.format } : {}),
    ...(body.events ? { events: body.events } : {}),
    ...(typeof body.strict === 'boolean' ? { strict: body.strict } : {}),
    ...(typeof body.migration_events === 'boolean' ? { migration_events: body.migration_events } : {}),
    ...(resumed ? { enabled: true, paused_reason: null, failing_since: null } : {}),
    ...(paused ? { enabled: false, paused_reason: 'by_hand' as const } : {}),
  })
  if (body.events) await skipKinds(tx, endpoint, body.events, tx.clock.wall())
  if (paused) await parkAll(tx, endpoint, tx.clock.wall())
  if (resumed) await resumeAll(tx, endpoint, tx.clock.wall())
  if (resumed || body.events) await wake(tx, endpoint.organization_id)
  return changed
}

/** It receives nothing further, also of what was waiting. */
export const remove = async (tx: Tx, reach: Reach, id: string): Promise<void> => {
  const endpoint = await hold(tx, reach, id)
  await skipAll(tx, endpoint, tx.clock.wall())
  await changeEndpoint(tx, endpoint, { deleted_at: tx.clock.wall() })
}

/** A new secret; the one before signs as well for a while, so that a receiver can change over without a gap. */
export const rotate = async (tx: Tx, reach: Reach, platform: Platform, id: string, overlap: number): Promise<Shown> => {
  const endpoint = await hold(tx, reach, id)
  const secret = newWebhookSecret()
  const wall = tx.clock.wall()
  const changed = await changeEndpoint(tx, endpoint, {
    modified_at: wall,
    secret_sealed: platform.sealer.seal(secret, id),
    secret_hint: webhookHint(secret),
    previous_sealed: overlap === 0 ? null : endpoint.secret_sealed,
    previous_secret_until: overlap === 0 ? null : later(wall, overlap * seconds),
  })
  return { endpoint: changed, secret }
}

/** The secret, for whoever may manage the organization and asks for it. */
export const reveal = async (tx: Tx, reach: Reach, platform: Platform, id: string): Promise<Shown> => {
  const endpoint = await hold(tx, reach, id)
  return { endpoint, secret: platform.sealer.open(endpoint.secret_sealed, endpoint.id) }
}

/** Switches an endpoint off that cannot be reached, keeps what it misses, and tells everyone who can switch it on. */
export const pause = async (tx: Tx, endpoint: Locked<EndpointRow>, reason: 'failing' | 'gone'): Promise<void> => {
  if (!endpoint.enabled) return
  await changeEndpoint(tx, endpoint, { enabled: false, paused_reason: reason, modified_at: tx.clock.wall() })
  await parkAll(tx, endpoint, tx.clock.wall())
  for (const user_id of await managersOf(tx, endpoint.organization_id))
    await enqueue(tx, 'mail.webhook_paused', { organization_id: endpoint.organization_id, endpoint_id: endpoint.id, user_id })
}

/** Tells one of them, unless it is on again by then. */
export const mailPaused = async (
  { db, gateways }: Means,
  { organization_id, endpoint_id, user_id }: { organization_id: string; endpoint_id: string; user_id: string },
): Promise<void> => {
  const paused = await findPaused(db, organization_id, endpoint_id, user_id)
  if (!paused) return
  const why =
    paused.paused_reason === 'gone'
      ? 'It answered 410, which means: send nothing more.'
      : `It has accepted nothing since ${paused.failing_since?.toISOString() ?? 'three days ago'}.`
  await gateways.mail.send({
    to: paused.email,
    subject: `A webhook endpoint of ${paused.organization_name} was switched off`,
    text: `Events are no longer sent to\n\n  ${paused.url}\n\n${why}\n\nThey are kept. Switch the endpoint on again when it works, and it receives what it missed, in order.`,
  })
}

const checkTarget = (platform: Platform, url: string, field: 'url' | 'enabled') => {
  try {
    readTarget(url, platform.config.egress)
  } catch (error) {
    if (!(error instanceof TargetRefused)) throw error
    throw new InvalidRequest({ loc: ['body', field], msg: error.message, type: 'value_error', input: field === 'url' ? url : true })
  }
}
