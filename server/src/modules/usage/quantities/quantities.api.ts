import { getMeterQuantities, ResourceNotFound } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { findMeter } from '../../catalog/index.ts'
import { permit } from '../../organizations/index.ts'
import { readerOf } from '../copies/asking.ts'
import { scanningReads } from '../events/concurrency.ts'
import { quantitiesOf } from './quantities.ts'

export const operations = [
  read(getMeterQuantities, async (db, { scope, params, query, ...call }) => {
    const meter = await findMeter(db, scope, params.id)
    if (!meter) throw new ResourceNotFound()
    permit(scope, meter.organization_id, 'analytics:read')
    const load = () => quantitiesOf(db, scope, meter, query, readerOf(call))
    // Without a filter by metadata, quantities come from totals.
    return Object.keys(query.metadata ?? {}).length > 0 ? scanningReads.run([meter.organization_id], load) : load()
  }),
]
