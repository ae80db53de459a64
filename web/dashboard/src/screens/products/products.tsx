import { listProducts, ProductVisibility } from '@bursar/contract'
import { Link } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island, may } from '../../app/island.ts'
import { many, one, useSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Status, Time } from '../../kit/bits.tsx'
import { DataTable, listing, type Column } from '../../kit/data-table.tsx'
import { Filters, keysOf, type Filter } from '../../kit/filters.tsx'
import { Head } from '../../kit/layout.tsx'
import { Empty } from '../../kit/states.tsx'
import { priceSentence, type ProductData } from './prices.ts'

const p = t.products
const filters: readonly Filter[] = [
  { kind: 'text', key: 'query', label: p.filter.query },
  { kind: 'choice', key: 'recurring', label: p.filter.recurring, options: Object.entries(p.recurring) },
  { kind: 'choices', key: 'visibility', label: p.filter.visibility, options: ProductVisibility.options.map((name) => [name, p.visibilities[name]] as const) },
  { kind: 'choice', key: 'archived', label: p.filter.archived, options: Object.entries(p.archived) },
]
const columns: readonly Column<ProductData>[] = [
  { id: 'name', header: p.columns.name, kind: 'main', sort: 'name', cell: ({ name }) => name },
  { id: 'price', header: p.columns.price, kind: 'fact', cell: priceSentence },
  {
    id: 'state',
    header: p.columns.state,
    kind: 'fact',
    cell: ({ is_archived }) => <Status tone={is_archived ? 'off' : 'good'}>{p.archived[is_archived ? 'true' : 'false']}</Status>,
  },
  { id: 'visibility', header: p.columns.visibility, cell: ({ visibility }) => p.visibilities[visibility] },
  { id: 'benefits', header: p.columns.benefits, cell: ({ benefits }) => (benefits.length === 0 ? null : benefits.length) },
  { id: 'created', header: p.columns.created, sort: 'created_at', cell: ({ created_at }) => <Time at={created_at} /> },
]
const flag = (value: string | undefined) => (value === undefined ? undefined : value === 'true')

export const Products = () => {
  const search = useSearch()
  const query = {
    query: one(search.query),
    is_recurring: flag(one(search.recurring)),
    is_archived: flag(one(search.archived)) ?? false,
    visibility: many(search.visibility) as ProductData['visibility'][],
    ...listing(search, '-created_at'),
  }
  const read = useRead(listProducts, { query })
  useAsCode(listProducts, { query })
  const create = may('products:manage') && (
    <Link className="button primary" to="/products/new">
      <Plus size={14} aria-hidden /> {p.create}
    </Link>
  )
  const command = `curl -X POST '${island.origin}/v1/products/' \\\n  -H "Authorization: Bearer $BURSAR_TOKEN" -H 'Content-Type: application/json' \\\n  -d '{"name": "Team Pro", "recurring_interval": "month", "prices": [{"amount_type": "fixed", "price_amount": 900}]}'`
  return (
    <>
      <Head title={p.title}>{create}</Head>
      <Filters filters={filters} views={[{ name: p.views.archived, search: { archived: 'true' } }]} name="products" />
      <DataTable
        label={p.title}
        read={read}
        columns={columns}
        idOf={({ id }) => id}
        to={({ id }) => `/products/${id}`}
        usualSort="-created_at"
        filters={keysOf(filters)}
        empty={<Empty text={p.empty} action={create} command={command} />}
      />
    </>
  )
}
