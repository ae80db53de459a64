import {
  createCustomer,
  deleteCustomer,
  deleteExternalCustomer,
  exportCustomers,
  getCustomer,
  getExternalCustomer,
  listCustomers,
  listExternalPaymentMethods,
  listPaymentMethods,
  paginate,
  updateCustomer,
  updateExternalCustomer,
  type PageRequest,
} from '@bursar/contract'
import type { Reach } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { download } from '../../exports.ts'
import { read, stream, write, type Platform } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { customersExport } from './exporting.sql.ts'
import { listCustomers as list, listMethods, type Naming } from './customers.sql.ts'
import { forget } from '../forgetting/forgetting.ts'
import { create, find, hold, holdToForget, present, remove, update } from './customers.ts'

const removeNamed = async (tx: Tx, { reach, platform }: { reach: Reach; platform: Platform }, naming: Naming, anonymize: boolean): Promise<void> =>
  anonymize ? forget(tx, platform.discretion, reach, await holdToForget(tx, reach, naming)) : remove(tx, reach, await hold(tx, reach, naming))

const methodsOf = async (db: Db, reach: Reach, naming: Naming, query: PageRequest) => {
  const { items, total, next_cursor } = await listMethods(db, await find(db, reach, naming), query)
  return paginate(query, items, total, next_cursor)
}

export const operations = [
  read(listCustomers, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'customers:read'), query)
    if (query.email) for (const { organization_id, only_holds } of items) if (only_holds) reach.notice?.(organization_id, 'filtered_by_holder')
    return paginate(query, items.map(present), total, next_cursor)
  }),
  stream(exportCustomers, (run, { reach, query, reply }) => download(run, reply, customersExport(confine(reach, 'customers:read'), query), 'customers')),
  write(createCustomer, async (tx, { reach, body }) => present(await create(tx, reach, body))),
  read(getCustomer, async (db, { reach, params }) => present(await find(db, reach, params))),
  read(getExternalCustomer, async (db, { reach, params }) => present(await find(db, reach, params))),
  write(updateCustomer, async (tx, { reach, params, body }) => present(await update(tx, reach, await hold(tx, reach, params), body))),
  write(updateExternalCustomer, async (tx, { reach, params, body }) => present(await update(tx, reach, await hold(tx, reach, params), body))),
  write(deleteCustomer, (tx, call) => removeNamed(tx, call, call.params, call.query.anonymize)),
  write(deleteExternalCustomer, (tx, call) => removeNamed(tx, call, call.params, call.query.anonymize)),
  read(listPaymentMethods, (db, { reach, params, query }) => methodsOf(db, reach, params, query)),
  read(listExternalPaymentMethods, (db, { reach, params, query }) => methodsOf(db, reach, params, query)),
]
