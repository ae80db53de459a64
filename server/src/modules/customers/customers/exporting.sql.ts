import type { exportCustomers, Parsed } from '@bursar/contract'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { among, exportOf, moment, plain, text, type Column, type Export } from '../../../platform/postgres/exports.sql.ts'
import { enabled } from './customers.sql.ts'

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

/** The customers that are, as the phase of their organization shows them, as a file. */
export const customersExport = (reach: Reach, query: Parsed<typeof exportCustomers, 'query'>): Export => {
  const organizations = organizationIds(reach, query.organization_id)
  return exportOf({ table: 'customers', alias: 'c', newest: 'c.created_at', always: 'c.deleted_at is null' }, columns, {
    organizations,
    timezone: 'UTC',
    filters: [
      // The lens on existence, in words that take no values.
      {
        ...among('c.organization_id', 'uuid[]', 'enabled', enabled(reach)),
        holds: (asked) => `(not c.pure_holder or c.organization_id <> all(${asked}::uuid[]))`,
      },
    ],
  })
}
