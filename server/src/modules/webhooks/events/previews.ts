import { isDeepStrictEqual } from 'node:util'
import { Customer, InvalidRequest, ResourceNotFound, type WebhookEventPreview } from '@bursar/contract'
import { within, type Reach } from '../../../kernel/actors.ts'
import { encode } from '../../../platform/encode.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { loadCustomers, presentCustomer } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { findBuyer, findWhole, onlyHolds, type WholeEvent } from './previews.sql.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * An event as it was said, and as it is said once the member model is on: so that a receiver can be tried before the
 * switch. What it tells of customers is what is known of them now.
 */
export const preview = async (db: Db, reach: Reach, id: string): Promise<WebhookEventPreview> => {
  const event = await findWhole(db, reach, id)
  if (!event) throw new ResourceNotFound()
  permit(reach, event.organization_id, 'organization:manage')
  const { payload } = event
  if (!payload)
    throw new InvalidRequest({
      loc: ['path', 'id'],
      msg: 'The body of this event was dropped after 90 days: it cannot be shown.',
      type: 'value_error',
      input: id,
    })
  const data = await foresee(db, event, payload.data)
  const phase2 = data && { ...payload, data }
  return { event_id: id, sent: { ...payload }, phase2, changed: phase2 ? differences(payload, phase2) : [] }
}

const foresee = async (db: Db, { organization_id, kind, resource_id, customer_id, is_migration }: WholeEvent, data: Json): Promise<Json | null> => {
  // What the migration says it says in the phase that it has brought about.
  if (is_migration) return data
  const [area] = kind.split('.')
  if (area === 'organization') return { ...data, feature_settings: { ...(data.feature_settings as Json), member_model_enabled: true } }
  // Seats say whose they are by their own row: whoever holds them is spoken of all the same.
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

/** The customer as it is shown after the switch: another one as it is now, the same one as it was, but for its type. */
const shownAfter = async (db: Db, organization_id: string, id: string, before: Json): Promise<Json> => {
  const [row] = await loadCustomers(db, within(organization_id, 'machine', 'phase2'), [id])
  if (!row) return before
  return before.id === id ? { ...before, ...('type' in before ? { type: row.type } : {}) } : (JSON.parse(encode(Customer, presentCustomer(row))) as Json)
}

/** Where two bodies differ, as deep as it can be said. */
const differences = (before: unknown, after: unknown, path = ''): string[] => {
  if (isDeepStrictEqual(before, after)) return []
  if (!isRecord(before) || !isRecord(after)) return [path]
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names].flatMap((name) => differences(before[name], after[name], path === '' ? name : `${path}.${name}`))
}

const isRecord = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
