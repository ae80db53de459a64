import { isDeepStrictEqual } from 'node:util'
import { accountLimits, InvalidRequest, ResourceNotFound, type Filter, type Meter, type MeterCreate, type MeterUpdate } from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { sizeOfFilter } from '../calc/compiled-filters.ts'
import { changeMeter, findCountingMeters, insertMeter, isCountedBy, lockMeter } from './meters.sql.ts'

/** Rejects a custom unit without a label, because its quantities could not be displayed with a unit. */
const refuseNameless = (unit: Meter['unit'], custom_label: string | null) => {
  if (unit === 'custom' && custom_label === null)
    throw new InvalidRequest({ loc: ['body', 'custom_label'], msg: 'A custom unit needs a label.', type: 'missing' })
}

/** Rejects a new filter or aggregation after the meter was billed, because the billed quantities could not be computed again. */
const refuseBilled = (field: 'filter' | 'aggregation', wanted: unknown, present: unknown) => {
  if (wanted && !isDeepStrictEqual(wanted, present))
    throw new InvalidRequest({
      loc: ['body', field],
      msg: `Usage of this meter has been billed, so its ${field} cannot change. Create another meter, and archive this one.`,
      type: 'value_error',
      input: wanted,
    })
}

const most = accountLimits.meters_per_organization

const mostClauses = accountLimits.meter_clauses_per_organization

/**
 * Rejects a meter if the organization then has too many meters that count events, or if their filters have too many clauses together. Each
 * event is compared with each clause. `id` is the meter itself if it exists.
 */
const refuseTooMany = async (
  tx: Tx,
  organization_id: string,
  {
    id,
    filter,
    loc,
  }: { readonly id?: string; readonly filter: Filter; readonly loc: { readonly count: readonly string[]; readonly clauses: readonly string[] } },
): Promise<void> => {
  const counting = await findCountingMeters(tx, organization_id)
  const others = counting.filter((one) => one.id !== id)
  if (others.length === counting.length && counting.length >= most)
    throw new InvalidRequest({
      loc: [...loc.count],
      msg: `This organization has ${counting.length} meters that count events. At most ${most} are allowed. First archive a meter that no subscription uses.`,
      type: 'value_error',
    })
  const count = others.reduce((sum, one) => sum + sizeOfFilter(one.filter), sizeOfFilter(filter))
  if (count > mostClauses)
    throw new InvalidRequest({
      loc: [...loc.clauses],
      msg: `The filters of all meters that count events would have ${count} clauses and nested filters. At most ${mostClauses} are allowed. Use fewer clauses, or first archive a meter that no subscription uses.`,
      type: 'value_error',
    })
}

export const createMeter = async (tx: Tx, scope: TenantScope, body: z.output<typeof MeterCreate>): Promise<Meter> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'analytics:manage')
  const custom_label = body.custom_label ?? null
  refuseNameless(body.unit, custom_label)
  await refuseTooMany(tx, organization_id, { filter: body.filter, loc: { count: ['body'], clauses: ['body', 'filter'] } })
  return insertMeter(tx, {
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: tx.clock.wall(),
    modified_at: null,
    archived_at: null,
    name: body.name,
    unit: body.unit,
    custom_label,
    custom_multiplier: body.custom_multiplier ?? null,
    filter: body.filter,
    aggregation: body.aggregation,
    metadata: body.metadata ?? {},
  })
}

/** Updates a meter. A meter cannot be archived while a price on sale or a benefit uses it. */
export const updateMeter = async (tx: Tx, scope: TenantScope, id: string, body: z.output<typeof MeterUpdate>): Promise<Meter> => {
  const meter = await lockMeter(tx, scope, id)
  if (!meter) throw new ResourceNotFound()
  permit(scope, meter.organization_id, 'analytics:manage')
  const unit = body.unit ?? meter.unit
  const custom_label = body.custom_label === undefined ? meter.custom_label : body.custom_label
  refuseNameless(unit, custom_label)
  if (body.is_archived && !meter.archived_at && (await isCountedBy(tx, meter)))
    throw new InvalidRequest({
      loc: ['body', 'is_archived'],
      msg: 'An active price or a benefit uses this meter. Archive or delete that first.',
      type: 'value_error',
      input: true,
    })
  if (meter.billed_at !== null) {
    refuseBilled('filter', body.filter, meter.filter)
    refuseBilled('aggregation', body.aggregation, meter.aggregation)
  }
  const filter = body.filter ?? meter.filter
  const restores = body.is_archived === false && meter.archived_at !== null
  if (restores || sizeOfFilter(filter) > sizeOfFilter(meter.filter)) {
    const restored = ['body', 'is_archived']
    await refuseTooMany(tx, meter.organization_id, { id, filter, loc: { count: restored, clauses: body.filter ? ['body', 'filter'] : restored } })
  }
  const now = tx.clock.wall()
  return changeMeter(tx, meter, {
    modified_at: now,
    unit,
    custom_label,
    ...(body.name ? { name: body.name } : {}),
    ...(body.custom_multiplier === undefined ? {} : { custom_multiplier: body.custom_multiplier }),
    ...(body.filter ? { filter: body.filter } : {}),
    ...(body.aggregation ? { aggregation: body.aggregation } : {}),
    ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    ...(typeof body.is_archived === 'boolean' ? { archived_at: body.is_archived ? (meter.archived_at ?? now) : null } : {}),
  })
}
