import { listCustomers, listOrders, OrderStatus } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { Download } from 'lucide-react'
import { lazy, Suspense, useMemo, useState } from 'react'
import { useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { many, one, useSearch } from '../../app/search.ts'
import { addTexts, t } from '../../app/texts.ts'
import { Money, Status, Time } from '../../kit/bits.tsx'
import { DataTable, listing, type Column } from '../../kit/data-table.tsx'
import { Filters, keysOf, type Filter } from '../../kit/filters.tsx'
import { Head } from '../../kit/layout.tsx'
import { Empty } from '../../kit/states.tsx'
import { toneOf } from '../../kit/words.ts'
import { filtersOf } from './filtering.ts'

const Export = lazy(async () => {
  await addTexts(['sale'])
  return import('./export.tsx')
})

type Row = Received<typeof listOrders>['items'][number]
const filters: readonly Filter[] = [
  { kind: 'text', key: 'email', label: t.orders.filter.email },
  { kind: 'choices', key: 'status', label: t.orders.filter.status, options: OrderStatus.options.map((status) => [status, t.orders.statuses[status]] as const) },
  { kind: 'choice', key: 'kind', label: t.orders.filter.kind, options: Object.entries(t.orders.kinds) },
  { kind: 'days', key: 'created', label: t.orders.filter.created, from: 'from', to: 'to' },
]
const views = [
  { name: t.orders.views.unpaid, search: { status: ['pending'] } },
  { name: t.orders.views.refunded, search: { status: ['refunded', 'partially_refunded'] } },
  { name: t.orders.views.renewals, search: { kind: ['recurring'] } },
]

/** A list can be ordered by date and amount only. Without an index for another order, the next page of a million orders takes seconds. */
const columns: readonly Column<Row>[] = [
  {
    id: 'customer',
    header: t.orders.columns.customer,
    kind: 'main',
    cell: ({ customer }) => (
      <>
        {customer.name ?? customer.email ?? t.orders.unnamed}
        {customer.name !== null && customer.email !== null && <span className="soft"> {customer.email}</span>}
      </>
    ),
  },
  { id: 'product', header: t.orders.columns.product, cell: ({ product, description }) => product?.name ?? description },
  {
    id: 'status',
    header: t.orders.columns.status,
    kind: 'fact',
    cell: ({ status }) => <Status tone={toneOf(status)}>{t.orders.statuses[status]}</Status>,
  },
  { id: 'reason', header: t.orders.columns.reason, cell: ({ billing_reason }) => t.orders.reasons[billing_reason] },
  { id: 'number', header: t.orders.columns.number, cell: ({ invoice_number }) => invoice_number },
  { id: 'seats', header: t.orders.columns.seats, cell: ({ seats }) => seats },
  { id: 'date', header: t.orders.columns.date, kind: 'fact', sort: 'created_at', cell: ({ created_at }) => <Time at={created_at} /> },
  {
    id: 'amount',
    header: t.orders.columns.amount,
    kind: 'amount',
    sort: 'amount',
    cell: ({ total_amount, currency }) => <Money amount={total_amount} currency={currency} />,
  },
]

export const Orders = () => {
  const search = useSearch()
  const [exporting, setExporting] = useState(false)
  const email = one(search.email)
  const named = useRead(listCustomers, { query: { email: email ?? '', limit: 100 } }, { enabled: email !== undefined })
  const customers = email === undefined ? [] : named.data?.items.map(({ id }) => id)
  const query = {
    ...filtersOf(search),
    product_billing_type: many(search.kind) as ('recurring' | 'one_time')[],
    ...(customers === undefined || customers.length === 0 ? {} : { customer_id: customers }),
    ...listing(search, '-created_at'),
  }
  const nobody = customers !== undefined && email !== undefined && customers.length === 0
  const found = useRead(listOrders, { query: query }, { enabled: customers !== undefined && !nobody })
  useAsCode(listOrders, { query })
  const read = useMemo(
    () => (nobody ? { ...found, data: { items: [], pagination: { total_count: 0, max_page: 0, next_cursor: null } }, error: null } : found),
    [nobody, found],
  )
  return (
    <>
      <Head title={t.orders.title}>
        <button type="button" onClick={() => setExporting(true)}>
          <Download size={14} aria-hidden /> {t.orders.exportOpen}
        </button>
      </Head>
      <Filters filters={filters} views={views} name="orders" />
      <DataTable
        label={t.orders.title}
        read={read}
        columns={columns}
        idOf={({ id }) => id}
        to={({ id }) => `/orders/${id}`}
        usualSort="-created_at"
        filters={keysOf(filters)}
        empty={<Empty text={t.orders.empty} />}
      />
      {exporting && (
        <Suspense fallback={null}>
          <Export rows={found.data?.pagination.total_count ?? 0} onClose={() => setExporting(false)} />
        </Suspense>
      )}
    </>
  )
}
