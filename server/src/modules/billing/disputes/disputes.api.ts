import { inWallTime } from '../../../platform/clocks.sql.ts'
import { acceptDispute, getDispute, listDisputes, paginate } from '@bursar/contract'
import { job, read, multiStep, sweep } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listDisputes as list } from '../records/disputes.sql.ts'
import { begin, requireDispute, followDue, followNamed, proceed, presentDispute } from './disputes.ts'

export const operations = [
  read(listDisputes, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'sales:read'), query)
    return paginate(query, items.map(presentDispute), total, next_cursor)
  }),
  read(getDispute, async (db, { scope, params }) => presentDispute(await requireDispute(db, scope, params.id))),
  multiStep(acceptDispute, {
    begin: (tx, { scope, params }) => begin(inWallTime(tx), scope, params.id),
    proceed: (deps, { scope }, intended) => proceed(deps, scope, intended),
  }),
]

export const jobs = [job('billing.follow_dispute', followNamed)]
export const sweeps = [sweep('billing.follow_disputes', followDue)]
