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
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { download } from '../../exports.ts'
import { read, stream, write, type Platform } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { customersExport } from './exporting.sql.ts'
import { listCustomers as list, listMethods, type Naming } from '../records/customers.sql.ts'
import { forget } from './forgetting.ts'
import { findCustomer, requireLockedCustomer } from '../records/customers.ts'
import * as customers from './customers.ts'

const removeNamed = async (tx: Tx, { scope, platform }: { scope: TenantScope; platform: Platform }, naming: Naming, anonymize: boolean): Promise<void> =>
  anonymize
    ? forget(tx, platform, scope, await customers.holdToForget(tx, scope, naming))
    : customers.deleteCustomer(tx, scope, await requireLockedCustomer(tx, scope, naming))

const methodsOf = async (db: Db, scope: TenantScope, naming: Naming, query: PageRequest) => {
  const { items, total, next_cursor } = await listMethods(db, await findCustomer(db, scope, naming), query)
  return paginate(query, items, total, next_cursor)
}

export const operations = [
  read(listCustomers, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'customers:read'), query)
    if (query.email) for (const { organization_id, only_holds } of items) if (only_holds) scope.notice?.(organization_id, 'filtered_by_holder')
    return paginate(query, items.map(customers.presentCustomer), total, next_cursor)
  }),
  stream(exportCustomers, (run, { scope, query, reply }) => download(run, reply, customersExport(confine(scope, 'customers:read'), query), 'customers')),
  write(createCustomer, async (tx, { scope, body }) => customers.presentCustomer(await customers.createCustomer(tx, scope, body))),
  read(getCustomer, async (db, { scope, params }) => customers.presentCustomer(await findCustomer(db, scope, params))),
  read(getExternalCustomer, async (db, { scope, params }) => customers.presentCustomer(await findCustomer(db, scope, params))),
  write(updateCustomer, async (tx, { scope, params, body }) =>
    customers.presentCustomer(await customers.updateCustomer(tx, scope, await requireLockedCustomer(tx, scope, params), body)),
  ),
  write(updateExternalCustomer, async (tx, { scope, params, body }) =>
    customers.presentCustomer(await customers.updateCustomer(tx, scope, await requireLockedCustomer(tx, scope, params), body)),
  ),
  write(deleteCustomer, (tx, call) => removeNamed(tx, call, call.params, call.query.anonymize)),
  write(deleteExternalCustomer, (tx, call) => removeNamed(tx, call, call.params, call.query.anonymize)),
  read(listPaymentMethods, (db, { scope, params, query }) => methodsOf(db, scope, params, query)),
  read(listExternalPaymentMethods, (db, { scope, params, query }) => methodsOf(db, scope, params, query)),
]
