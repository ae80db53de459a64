import {
  accountLimits,
  defaultVersion,
  InvalidRequest,
  ResourceNotFound,
  type WebhookEndpoint,
  type WebhookEndpointCreate,
  type WebhookEndpointUpdate,
} from '@bursar/contract'
import type { z } from 'zod'
import { readTarget, TargetRefused } from '../../../gateways/egress/targets.ts'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newWebhookSecret, webhookHint, type Secret } from '../../../kernel/secrets.ts'
import { later, seconds } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { wake } from '../../../platform/outbox/outbox.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { managersOf } from '../../identity/index.ts'
import { accountUrl, chooseOrganization, languageOfSeller, permit, sendMail } from '../../organizations/index.ts'
import { parkAll, resumeAll, skipAll, skipKinds } from '../records/deliveries.sql.ts'
import { changeEndpoint, countEndpoints, findEndpoint, findPaused, insertEndpoint, lockEndpoint, type EndpointRow } from './endpoints.sql.ts'

const most = accountLimits.webhook_endpoints_per_organization

/** Presents the endpoint. Shows the full secret only if the caller passes it, otherwise a hint. */
export const presentWebhookEndpoint = (row: EndpointRow, secret?: Secret): WebhookEndpoint => ({ ...row, secret: secret?.reveal() ?? row.secret_hint })

export interface Shown {
  readonly endpoint: EndpointRow
  readonly secret: Secret
}

/** Creates an endpoint with a public URL and its own secret, pinned to the current API version. */
export const createWebhookEndpoint = async (tx: Tx, scope: TenantScope, platform: Platform, body: z.output<typeof WebhookEndpointCreate>): Promise<Shown> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'organization:manage')
  checkTarget(platform, body.url, 'url')
  if ((await countEndpoints(tx, organization_id)) >= most)
    throw new InvalidRequest({ loc: ['body'], msg: `An organization has at most ${most} endpoints. Delete an unused one.`, type: 'value_error' })
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

export const requireWebhookEndpoint = async (db: Db, scope: TenantScope, id: string): Promise<EndpointRow> => {
  const endpoint = await findEndpoint(db, scope, id)
  if (!endpoint) throw new ResourceNotFound()
  permit(scope, endpoint.organization_id, 'organization:manage')
  return endpoint
}

const hold = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<EndpointRow>> => {
  const endpoint = await lockEndpoint(tx, scope, id)
  if (!endpoint) throw new ResourceNotFound()
  permit(scope, endpoint.organization_id, 'organization:manage')
  return endpoint
}

/**
 * Updates an endpoint. Waiting deliveries of kinds that the update removes are skipped. Events that occurred while the
 * endpoint was disabled are sent in order when it is enabled again.
 */
export const updateWebhookEndpoint = async (
  tx: Tx,
  scope: TenantScope,
  platform: Platform,
  id: string,
  body: z.output<typeof WebhookEndpointUpdate>,
): Promise<EndpointRow> => {
  const endpoint = await hold(tx, scope, id)
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

/** Deletes the endpoint. Waiting deliveries are not sent. */
export const deleteWebhookEndpoint = async (tx: Tx, scope: TenantScope, id: string): Promise<void> => {
  const endpoint = await hold(tx, scope, id)
  await skipAll(tx, endpoint, tx.clock.wall())
  await changeEndpoint(tx, endpoint, { deleted_at: tx.clock.wall() })
}

/** Replaces the secret. During the overlap, deliveries are also signed with the previous secret, so that a receiver can switch without rejecting any. */
export const rotate = async (tx: Tx, scope: TenantScope, platform: Platform, id: string, overlap: number): Promise<Shown> => {
  const endpoint = await hold(tx, scope, id)
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

/** Returns the full secret of an endpoint. Requires the permission to manage the organization. */
export const reveal = async (tx: Tx, scope: TenantScope, platform: Platform, id: string): Promise<Shown> => {
  const endpoint = await hold(tx, scope, id)
  return { endpoint, secret: platform.sealer.open(endpoint.secret_sealed, endpoint.id) }
}

/** Disables an endpoint that keeps failing or answered 410. Parks its deliveries, and mails every user who can enable it again. */
export const pause = async (tx: Tx, endpoint: Locked<EndpointRow>, reason: 'failing' | 'gone'): Promise<void> => {
  if (!endpoint.enabled) return
  await changeEndpoint(tx, endpoint, { enabled: false, paused_reason: reason, modified_at: tx.clock.wall() })
  await parkAll(tx, endpoint, tx.clock.wall())
  for (const user_id of await managersOf(tx, endpoint.organization_id))
    await enqueue(tx, 'mail.webhook_paused', { organization_id: endpoint.organization_id, endpoint_id: endpoint.id, user_id })
}

/** Mails one user that an endpoint was disabled, unless it has been enabled again. */
export const mailPaused = async (
  deps: Deps,
  { organization_id, endpoint_id, user_id }: { organization_id: string; endpoint_id: string; user_id: string },
): Promise<void> => {
  const paused = await findPaused(deps.db, organization_id, endpoint_id, user_id)
  if (!paused) return
  const { email: to, organization_name: organization, url: endpoint, failing_since } = paused
  const reason = paused.paused_reason === 'gone' ? 'gone' : 'failing'
  const docs_url = accountUrl(deps.platform, '/docs')
  await sendMail(deps, {
    to,
    seller: null,
    language: languageOfSeller(paused),
    view: { kind: 'webhook_paused', organization, endpoint, reason, failing_since, docs_url },
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
