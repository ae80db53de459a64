import { InvalidRequest, ResourceNotFound, type Meter, type MeterCreate, type MeterUpdate } from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { changeMeter, insertMeter, isCountedBy, lockMeter } from './meters.sql.ts'

/** Rejects a custom unit without a label, because its quantities could not be displayed with a unit. */
const refuseNameless = (unit: Meter['unit'], custom_label: string | null) => {
  if (unit === 'custom' && custom_label === null)
    throw new InvalidRequest({ loc: ['body', 'custom_label'], msg: 'A custom unit needs a label.', type: 'missing' })
}

export const createMeter = (tx: Tx, scope: TenantScope, body: z.output<typeof MeterCreate>): Promise<Meter> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'analytics:manage')
  const custom_label = body.custom_label ?? null
  refuseNameless(body.unit, custom_label)
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
