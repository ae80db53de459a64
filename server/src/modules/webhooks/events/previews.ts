import { isDeepStrictEqual } from 'node:util'
import { Customer, InvalidRequest, ResourceNotFound, type WebhookEventPreview } from '@bursar/contract'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { encode } from '../../../platform/encode.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { loadCustomers, presentCustomer } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { findBuyer, findWhole, onlyHolds, type WholeEvent } from './previews.sql.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * Shows an event as it was sent, and as it would be sent after the switch to the member model. Sellers can thus test a
 * receiver before the switch. Customer data is current, not historical.
 */
export const preview = async (db: Db, scope: TenantScope, id: string): Promise<WebhookEventPreview> => {
  const event = await findWhole(db, scope, id)
  if (!event) throw new ResourceNotFound()
  permit(scope, event.organization_id, 'organization:manage')
  const { payload } = event
  if (!payload)
    throw new InvalidRequest({
      loc: ['path', 'id'],
      msg: 'The body of this event was deleted after 90 days, so it cannot be shown.',
      type: 'value_error',
      input: id,
    })
  const data = await foresee(db, event, payload.data)
  const phase2 = data && { ...payload, data }
  return { event_id: id, sent: { ...payload }, phase2, changed: phase2 ? differences(payload, phase2) : [] }
}

const foresee = async (db: Db, { organization_id, kind, resource_id, customer_id, is_migration }: WholeEvent, data: Json): Promise<Json | null> => {
  // Events emitted by the migration itself already have the format of phase 2.
  if (is_migration) return data
  const [area] = kind.split('.')
  if (area === 'organization') return { ...data, feature_settings: { ...(data.feature_settings as Json), member_model_enabled: true } }
  // Seat and grant events name the buyer of the seat or grant. Phase 2 sends them even if the event's customer only holds seats.
  const held = area === 'customer_seat' ? 'seats' : area === 'benefit_grant' ? 'benefit_grants' : undefined
  const buyer = held && (await findBuyer(db, organization_id, held, resource_id))
  if (!held && customer_id && (area === 'customer' || area === 'member') && (await onlyHolds(db, organization_id, customer_id))) return null
  const named = area === 'customer' ? data : (data.customer as Json | null | undefined)
  const whose = buyer ?? (named?.id as string | undefined)
  if (whose === undefined) return data
  const shown = named ? await shownAfter(db, organization_id, whose, named) : undefined
  if (area === 'customer') return { ...data, ...shown }
  return { ...data, ...(buyer ? { customer_id: buyer } : {}), ...(shown ? { customer: shown } : {}) }
}

/** Returns the customer as shown after the switch. If phase 2 shows another customer, that customer's current data is used. Otherwise only the type changes. */
const shownAfter = async (db: Db, organization_id: string, id: string, before: Json): Promise<Json> => {
  const [row] = await loadCustomers(db, within(organization_id, 'machine', 'phase2'), [id])
  if (!row) return before
  return before.id === id ? { ...before, ...('type' in before ? { type: row.type } : {}) } : (JSON.parse(encode(Customer, presentCustomer(row))) as Json)
}

/** Lists the paths at which two JSON bodies differ. Descends into objects, so that each path is as specific as possible. */
const differences = (before: unknown, after: unknown, path = ''): string[] => {
  if (isDeepStrictEqual(before, after)) return []
  if (!isRecord(before) || !isRecord(after)) return [path]
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].flatMap((name) => differences(before[name], after[name], path === '' ? name : `${path}.${name}`))
}

const isRecord = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
