import { listWebhookEndpoints } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { Plus } from 'lucide-react'
import { lazy, Suspense, useState } from 'react'
import { useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island } from '../../app/island.ts'
import { useSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Time } from '../../kit/bits.tsx'
import { DataTable, listing, type Column } from '../../kit/data-table.tsx'
import { Head } from '../../kit/layout.tsx'
import { Empty } from '../../kit/states.tsx'
import { EndpointState } from './state.tsx'

const Create = lazy(() => import('./create.tsx'))

type Row = Received<typeof listWebhookEndpoints>['items'][number]

const columns: readonly Column<Row>[] = [
  {
    id: 'endpoint',
    header: t.webhooks.columns.endpoint,
    kind: 'main',
    cell: ({ name, url }) => (
      <>
        {name ?? url}
        {name !== null && <span className="soft"> {url}</span>}
      </>
    ),
  },
  { id: 'state', header: t.webhooks.columns.state, kind: 'fact', cell: (endpoint) => <EndpointState endpoint={endpoint} /> },
  { id: 'events', header: t.webhooks.columns.events, kind: 'amount', cell: ({ events }) => (events.length === 0 ? t.webhooks.none : events.length) },
  { id: 'created', header: t.webhooks.columns.created, cell: ({ created_at }) => <Time at={created_at} /> },
]

export const Webhooks = () => {
  const { limit, cursor } = listing(useSearch(), '')
  const [creating, setCreating] = useState(false)
  const query = { limit, cursor }
  const read = useRead(listWebhookEndpoints, { query })
  useAsCode(listWebhookEndpoints, { query })
  const create = (
    <button type="button" className="primary" onClick={() => setCreating(true)}>
      <Plus size={14} aria-hidden /> {t.webhooks.create}
    </button>
  )
  const command = `curl -X POST '${island.origin}/v1/webhooks/endpoints' \\\n  -H "Authorization: Bearer $BURSAR_TOKEN" -H 'Content-Type: application/json' \\\n  -d '{"url": "https://example.com/hooks", "format": "raw", "events": ["order.paid"]}'`
  return (
    <>
      <Head title={t.webhooks.title}>{create}</Head>
      <DataTable
        label={t.webhooks.title}
        read={read}
        columns={columns}
        idOf={({ id }) => id}
        to={({ id }) => `/webhooks/${id}`}
        usualSort=""
        filters={[]}
        empty={<Empty text={t.webhooks.empty} action={create} command={command} />}
      />
      {creating && (
        <Suspense fallback={null}>
          <Create onClose={() => setCreating(false)} />
        </Suspense>
      )}
    </>
  )
}
