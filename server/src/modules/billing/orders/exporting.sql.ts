import type { OrderExportColumn, Parsed, exportOrders } from '@bursar/contract'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { among, amount, between, exportOf, moment, plain, text, type Column, type Export } from '../../../platform/postgres/exports.sql.ts'

const money = (column: string) => amount(`o.${column}`, 'o.currency')

const columns: Record<OrderExportColumn, Column> = {
  email: { header: 'Email', cell: text('c.email') },
  created_at: { header: 'Created At', cell: moment('o.created_at') },
  product: { header: 'Product', cell: text('o.description') },
  net_amount: { header: 'Net Amount', cell: money('net_amount') },
  currency: { header: 'Currency', cell: plain('o.currency') },
  status: { header: 'Status', cell: plain('o.status') },
  invoice_number: { header: 'Invoice number', cell: text('o.invoice_number') },
  customer_name: { header: 'Customer Name', cell: text('c.name') },
  billing_name: { header: 'Billing Name', cell: text('o.billing_name') },
  billing_country: { header: 'Billing Country', cell: text(`(o.billing_address ->> 'country')`) },
  subtotal_amount: { header: 'Subtotal', cell: money('subtotal_amount') },
  discount_amount: { header: 'Discount', cell: money('discount_amount') },
  tax_amount: { header: 'Tax', cell: money('tax_amount') },
  total_amount: { header: 'Total', cell: money('total_amount') },
  refunded_amount: { header: 'Refunded Amount', cell: money('refunded_amount') },
  billing_reason: { header: 'Billing Reason', cell: plain('o.billing_reason') },
}
const usual = Object.keys(columns).slice(0, 7) as OrderExportColumn[]

/** Builds the export of the orders in scope, including those of deleted customers. */
export const ordersExport = (scope: TenantScope, query: Parsed<typeof exportOrders, 'query'>): Export =>
  exportOf(
    {
      table: 'orders',
      alias: 'o',
      joined: 'left join customers c on c.organization_id = o.organization_id and c.id = o.customer_id',
      newest: 'o.created_at',
      counted: ['orders'],
    },
    (query.columns.length === 0 ? usual : query.columns).map((name) => columns[name]),
    {
      organizations: organizationIds(scope, query.organization_id),
      timezone: query.timezone,
      filters: [
        among('o.product_id', 'uuid[]', 'product_id', query.product_id),
        among('o.status', 'text[]', 'status', query.status),
        ...between('o.created_at', ['created_after', 'created_before'], query.created_after, query.created_before),
      ],
    },
  )
