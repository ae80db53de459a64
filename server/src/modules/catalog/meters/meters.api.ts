import { createMeter, getMeter, listMeters, paginate, ResourceNotFound, updateMeter } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine, permit } from '../../organizations/index.ts'
import { findMeter, listMeters as list } from './meters.sql.ts'
import { create, update } from './meters.ts'

export const operations = [
  read(listMeters, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'analytics:read'), query)
    return paginate(query, items, total, next_cursor)
  }),
  write(createMeter, (tx, { reach, body }) => create(tx, reach, body)),
  read(getMeter, async (db, { reach, params }) => {
    const meter = await findMeter(db, reach, params.id)
    if (!meter) throw new ResourceNotFound()
    permit(reach, meter.organization_id, 'analytics:read')
    return meter
  }),
  write(updateMeter, (tx, { reach, params, body }) => update(tx, reach, params.id, body)),
]
