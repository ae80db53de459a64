import { createHash } from 'node:crypto'
import { InvalidRequest, requestLimits, type EventCorrectionCreate, type EventCorrectionMade, type EventCreate, type Invalid } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { isRawNumber, parseForWriting } from '../../../kernel/exact-json.ts'
import { newId } from '../../../kernel/ids.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { storeMetadata, type ExactNumbers } from '../calc/metadata.ts'
import { uncount } from '../counting/uncounting.ts'
import { metersToCorrect } from '../counting/uncounting.sql.ts'
import { ingestInto, throwAll } from '../events/ingest.ts'
import { findTargets, insertCorrections, markCorrected, type CorrectionTable, type Target } from './corrections.sql.ts'

export interface CorrectionRequest {
  readonly organization_id?: string | null | undefined
  readonly corrections: readonly EventCorrectionCreate[]
}

/** Returns the organization whose events a request corrects. Rejects callers who may not send events to it. */
export const organizationOf = (scope: TenantScope, { organization_id }: CorrectionRequest): string => {
  const chosen = chooseOrganization(scope, organization_id ?? undefined)
  permit(scope, chosen, 'events:ingest')
  return chosen
}

/** A correction of the request with its event. */
interface Wanted {
  readonly at: number
  readonly correction: EventCorrectionCreate
  readonly event: Target
  /** Null for a correction without a replacement. */
  readonly fingerprint: string | null
}

interface Corrected {
  readonly corrected: number
  readonly duplicates: number
  readonly corrections: EventCorrectionMade[]
}

/**
 * Applies all corrections of a request, or none. An event is corrected once: the same correction again is a duplicate, and
 * another correction is refused. The locks of `metersToCorrect` serialize the corrections of an organization.
 */
export const correctUsageEvents = async (tx: Tx, scope: TenantScope, request: CorrectionRequest, numbers: ExactNumbers): Promise<Corrected> => {
  const organization_id = organizationOf(scope, request)
  const { corrections } = request
  refuseMany(corrections.length)
  if (corrections.length === 0) return { corrected: 0, duplicates: 0, corrections: [] }
  // Later statements see everything that these locks waited for, so the events are found after them.
  const meters = await metersToCorrect(tx, organization_id)
  const targets = await findTargets(tx, organization_id, [...new Set(corrections.map(({ event_id }) => event_id))])
  const wanted = checkCorrections(corrections, targets, numbers)
  const fresh = wanted.filter(({ event }, index) => event.correction_id === null && wanted.findIndex((one) => one.event.id === event.id) === index)

  const known = new Map(wanted.flatMap(({ event }) => (event.correction_id === null ? [] : [[event.id, presentKnown(event)] as const])))
  if (fresh.length > 0)
    for (const row of await applyCorrections(tx, scope, organization_id, fresh, meters, numbers)) known.set(row.event_id, presentCorrection(row))
  return { corrected: fresh.length, duplicates: wanted.length - fresh.length, corrections: wanted.map(({ event }) => known.get(event.id)!) }
}

const applyCorrections = async (
  tx: Tx,
  scope: TenantScope,
  organization_id: string,
  fresh: readonly Wanted[],
  meters: Awaited<ReturnType<typeof metersToCorrect>>,
  numbers: ExactNumbers,
): Promise<CorrectionTable[]> => {
  const ids = fresh.map(({ event }) => event.id)
  await markCorrected(tx, organization_id, ids)
  const uncounted = fresh.map(({ event }) => ({ ...event, metadata: parseForWriting(event.metadata) as Record<string, unknown> }))
  await uncount(tx, organization_id, meters, uncounted)

  const sent = fresh.flatMap(({ at, correction, event }) => {
    if (correction.action === 'void') return []
    const { replacement } = correction
    return [{ path: ['corrections', at, 'replacement'], event: { ...replacement, timestamp: replacement.timestamp ?? event.timestamp } }]
  })
  const stored = sent.length === 0 ? [] : await ingestInto(tx, scope, organization_id, sent, numbers)
  const replacements = new Map(stored.map(({ path, id }) => [path[1], id]))
  throwAll(sent.flatMap(({ path, event }) => (replacements.has(path[1]) ? [] : [takenExternalId(path, event)])))

  const created_at = tx.clock.wall()
  const rows = fresh.map(({ at, correction, event, fingerprint }): CorrectionTable => ({
    organization_id,
    id: newId(created_at),
    created_at,
    event_id: event.id,
    subject_id: event.subject_id,
    replacement_id: replacements.get(at) ?? null,
    fingerprint,
    reason: correction.reason,
  }))
  await insertCorrections(tx, rows)
  return rows
}

const presentCorrection = ({ id, created_at, event_id, replacement_id }: CorrectionTable): EventCorrectionMade => ({ id, created_at, event_id, replacement_id })

const presentKnown = ({ correction_id, created_at, id, replacement_id }: Target): EventCorrectionMade => ({
  id: correction_id!,
  created_at: created_at!,
  event_id: id,
  replacement_id,
})

/** A long list is parsed in slices, which the schema cannot count together. */
const refuseMany = (count: number): void => {
  const most = requestLimits.corrections_per_request
  if (count > most)
    throw new InvalidRequest({
      loc: ['body', 'corrections'],
      msg: `A request has at most ${most} corrections. Received ${count}. Send them in several requests.`,
      type: 'too_long',
    })
}

/** Finds the event of each correction. Rejects corrections of unknown events, and events that have another correction. */
const checkCorrections = (corrections: readonly EventCorrectionCreate[], targets: ReadonlyMap<string, Target>, numbers: ExactNumbers): Wanted[] => {
  const problems: Invalid[] = []
  const first = new Map<string, string | null>()
  const wanted = corrections.flatMap((correction, at): Wanted[] => {
    const refuse = (msg: string): Wanted[] => {
      problems.push({ loc: ['body', 'corrections', at, 'event_id'], msg, type: 'value_error', input: correction.event_id })
      return []
    }
    const event = targets.get(correction.event_id)
    if (!event) return refuse('This organization has no event with this id or external id. Send the id of one of its events.')
    if (event.source !== 'user') return refuse('Bursar itself recorded this event. Only events that you sent can be corrected.')
    const fingerprint = correction.action === 'void' ? null : fingerprintOf(correction.replacement, ['corrections', at, 'replacement'], numbers)
    if (event.correction_id !== null && event.fingerprint !== fingerprint)
      return refuse(
        event.replacement_id === null
          ? 'This event was voided before, and cannot be replaced. Send a new event.'
          : `This event was replaced before by the event ${event.replacement_id}. Correct that event instead.`,
      )
    if (first.has(event.id) && first.get(event.id) !== fingerprint) return refuse('This request has two different corrections of this event. Send one of them.')
    first.set(event.id, fingerprint)
    return [{ at, correction, event, fingerprint }]
  })
  throwAll(problems)
  return wanted
}

const takenExternalId = (path: readonly (string | number)[], { external_id }: EventCreate): Invalid => ({
  loc: ['body', ...path, 'external_id'],
  msg: 'Another event has this external id, and external ids are kept for ever. Send another one, or leave it out.',
  type: 'value_error',
  input: external_id,
})

/** Returns a hash of a replacement as it was sent. Texts of language models are personal data, and left out. */
const fingerprintOf = ({ metadata, ...fields }: EventCreate, path: readonly (string | number)[], numbers: ExactNumbers): string => {
  // Problems of the metadata are found again, and reported, when the replacement is stored.
  const stored = storeMetadata(metadata ?? {}, path, numbers, [])
  return createHash('sha256')
    .update(JSON.stringify(sorted({ ...fields, metadata: stored.metadata })))
    .digest('hex')
}

/** Sorts the keys of a record, and drops absent ones. So the sequence of fields in a request does not matter. */
const sorted = (value: unknown): unknown => {
  if (typeof value !== 'object' || value === null || value instanceof Date || isRawNumber(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== undefined && item !== null)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, sorted(item)]),
  )
}
