import { createCustomer, listCustomers } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import individual from 'form:CustomerIndividualCreate'
import { useNavigate } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useState } from 'react'
import { newKey, useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island, may } from '../../app/island.ts'
import { one, useSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Time } from '../../kit/bits.tsx'
import { DataTable, listing, type Column } from '../../kit/data-table.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { Filters, keysOf, type Filter } from '../../kit/filters.tsx'
import { complaintsOf, Field, Form, textOf } from '../../kit/form.tsx'
import { Head } from '../../kit/layout.tsx'
import { Empty } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'

type Row = Received<typeof listCustomers>['items'][number]

const filters: readonly Filter[] = [
  { kind: 'text', key: 'query', label: t.customers.filter.query },
  { kind: 'choice', key: 'active', label: t.customers.filter.active, options: Object.entries(t.customers.activeOptions) },
]
const views = [
  { name: t.customers.views.active, search: { active: 'true' } },
  { name: t.customers.views.inactive, search: { active: 'false' } },
]
const columns: readonly Column<Row>[] = [
  { id: 'name', header: t.customers.columns.customer, kind: 'main', sort: 'name', cell: ({ name, email }) => name ?? email ?? t.customers.unnamed },
  { id: 'email', header: t.customers.columns.email, sort: 'email', kind: 'fact', cell: ({ email }) => email },
  { id: 'type', header: t.customers.columns.type, kind: 'fact', cell: ({ type }) => t.customers.types[type] },
  { id: 'external', header: t.customers.columns.external, cell: ({ external_id }) => external_id },
  { id: 'country', header: t.customers.columns.country, cell: ({ billing_address }) => billing_address?.country },
  { id: 'created', header: t.customers.columns.created, sort: 'created_at', cell: ({ created_at }) => <Time at={created_at} /> },
]

export const Customers = () => {
  const search = useSearch()
  const [creating, setCreating] = useState(false)
  const active = one(search.active)
  const query = { query: one(search.query), ...(active === undefined ? {} : { active: active === 'true' }), ...listing(search, '-created_at') }
  const read = useRead(listCustomers, { query: query })
  useAsCode(listCustomers, { query })
  const create = may('customers:manage') && (
    <button type="button" className="primary" onClick={() => setCreating(true)}>
      <Plus size={14} aria-hidden /> {t.customers.create}
    </button>
  )
  return (
    <>
      <Head title={t.customers.title}>{create}</Head>
      <Filters filters={filters} views={views} name="customers" />
      <DataTable
        label={t.customers.title}
        read={read}
        columns={columns}
        idOf={({ id }) => id}
        to={({ id }) => `/customers/${id}`}
        usualSort="-created_at"
        filters={keysOf(filters)}
        empty={
          <Empty
            text={t.customers.empty}
            action={create}
            command={`curl -X POST '${island.origin}/v1/customers/' \\\n  -H "Authorization: Bearer $BURSAR_TOKEN" -H 'Content-Type: application/json' \\\n  -d '{"email": "ada@example.com"}'`}
          />
        }
      />
      {creating && <Create onClose={() => setCreating(false)} />}
    </>
  )
}

const fields = ['email', 'name', 'external_id'] as const

const Create = ({ onClose }: { onClose: () => void }) => {
  const [key] = useState(newKey)
  const navigate = useNavigate()
  const create = useChange(createCustomer, ['customers'])
  const complaints = complaintsOf(create.error)
  const send = (data: FormData) =>
    create.mutate(
      {
        body: { email: textOf(data, 'email') ?? '', name: textOf(data, 'name'), external_id: textOf(data, 'external_id') },
        headers: { 'idempotency-key': key },
      },
      {
        onSuccess: ({ id }) => {
          toast(t.customers.created)
          void navigate({ to: `/customers/${id}` as '/' })
        },
      },
    )
  return (
    <Dialog title={t.customers.create} onClose={onClose}>
      <Form label={t.customers.create} send={t.customers.create} onSend={send} onCancel={onClose} busy={create.isPending} error={create.error} fields={fields}>
        {fields.map((name, at) => (
          <Field
            key={name}
            name={name}
            label={t.customers.fields[name]}
            facts={individual[name]}
            hint={name === 'external_id' ? t.customers.hints.external_id : undefined}
            complaint={complaints[name]}
            autoFocus={at === 0}
          />
        ))}
      </Form>
    </Dialog>
  )
}
