import { createMeter, getMeter, listMeters, paginate, ResourceNotFound, updateMeter } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { findMeter, listMeters as list } from './meters.sql.ts'
import * as meters from './meters.ts'

export const operations = [
  read(listMeters, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'analytics:read'), query)
    return paginate(query, items, total, next_cursor)
  }),
  write(createMeter, (tx, { scope, body }) => meters.createMeter(tx, scope, body)),
  read(getMeter, async (db, { scope, params }) => {
    const meter = await findMeter(db, scope, params.id)
    if (!meter) throw new ResourceNotFound()
    permit(scope, meter.organization_id, 'analytics:read')
    return meter
  }),
  write(updateMeter, (tx, { scope, params, body }) => meters.updateMeter(tx, scope, params.id, body)),
]
