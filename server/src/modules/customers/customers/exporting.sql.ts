import type { exportCustomers, Parsed } from '@bursar/contract'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { among, exportOf, moment, plain, text, type Column, type Export } from '../../../platform/postgres/exports.sql.ts'
import { enabled } from '../records/customer-rows.sql.ts'

const address = (part: string) => text(`(c.billing_address ->> '${part}')`)

const columns: readonly Column[] = [
  { header: 'ID', cell: plain('c.id') },
  { header: 'External ID', cell: text('c.external_id') },
  { header: 'Created At', cell: moment('c.created_at') },
  { header: 'Email', cell: text('c.email') },
  { header: 'Name', cell: text('c.name') },
  { header: 'Tax ID', cell: text('c.tax_id') },
  { header: 'Billing Address Line 1', cell: address('line1') },
  { header: 'Billing Address Line 2', cell: address('line2') },
  { header: 'Billing Address City', cell: address('city') },
  { header: 'Billing Address State', cell: address('state') },
  { header: 'Billing Address Zip', cell: address('postal_code') },
  { header: 'Billing Address Country', cell: address('country') },
  { header: 'Metadata', cell: text('c.metadata::text') },
]

/** Returns the CSV export of the customers that exist in their organization's member phase. */
export const customersExport = (scope: TenantScope, query: Parsed<typeof exportCustomers, 'query'>): Export => {
  const organizations = organizationIds(scope, query.organization_id)
  return exportOf({ table: 'customers', alias: 'c', newest: 'c.created_at', always: 'c.deleted_at is null' }, columns, {
    organizations,
    timezone: 'UTC',
    filters: [
      // The same condition as `exists`, written as SQL text, because COPY accepts no parameters.
      {
        ...among('c.organization_id', 'uuid[]', 'enabled', enabled(scope)),
        holds: (asked) => `(not c.pure_holder or c.organization_id <> all(${asked}::uuid[]))`,
      },
    ],
  })
}
