import { listOrders, listOrganizationTokens, listProducts, listWebhookDeliveries } from '@bursar/contract'
import { Link } from '@tanstack/react-router'
import { Circle, CircleCheck } from 'lucide-react'
import { lazy, Suspense, useState, type ReactNode } from 'react'
import { useRead } from '../../app/api.ts'
import { island } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { Code } from '../../kit/bits.tsx'
import { Panel } from '../../kit/layout.tsx'

const Token = lazy(() => import('../../parts/access-token.tsx'))

interface Step {
  readonly name: string
  readonly done: boolean
  readonly act?: ReactNode
  readonly about?: string
  readonly command?: string
}

const call = (method: string, path: string, body?: unknown) =>
  `curl ${method === 'GET' ? '' : `-X ${method} `}'${island.origin}${path}' \\\n  -H "Authorization: Bearer $BURSAR_TOKEN"${
    body === undefined ? '' : ` -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body)}'`
  }`

/** The way to the first sale. Each step ticks itself, and the list disappears when all are done. */
export const FirstSteps = () => {
  const [creating, setCreating] = useState(false)
  const query = { organization_id: [island.organization.id], limit: 1 }
  const products = useRead(listProducts, { query })
  const orders = useRead(listOrders, { query })
  const deliveries = useRead(listWebhookDeliveries, { query: { succeeded: true, limit: 1 } })
  const tokens = useRead(listOrganizationTokens, { query: { limit: 100 } })
  if (!products.data || !orders.data || !deliveries.data || !tokens.data) return null
  const s = t.home.start
  const first = products.data.items[0]
  const steps: readonly Step[] = [
    { name: s.organization, done: true },
    {
      name: s.product,
      done: first !== undefined,
      act: <Link to="/products/new">{s.productAct}</Link>,
      command: call('POST', '/v1/products/', { name: 'Team Pro', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 900 }] }),
    },
    {
      name: s.purchase,
      done: orders.data.pagination.total_count > 0,
      about: s.purchaseAbout,
      act: first && <Link to={`/products/${first.id}` as '/'}>{s.purchaseAct}</Link>,
    },
    {
      name: s.webhook,
      done: deliveries.data.pagination.total_count > 0,
      about: s.webhookAbout,
      act: <Link to="/webhooks">{s.webhookAct}</Link>,
      command: call('POST', '/v1/webhooks/endpoints', { url: 'https://example.com/hooks', format: 'raw', events: ['order.paid'] }),
    },
    {
      name: s.token,
      done: tokens.data.items.some(({ last_used_at }) => last_used_at !== null),
      act: (
        <button type="button" onClick={() => setCreating(true)}>
          {s.tokenAct}
        </button>
      ),
      command: call('GET', '/v1/products/'),
    },
  ]
  const done = steps.filter((step) => step.done).length
  if (done === steps.length) return null
  return (
    <Panel title={s.title}>
      <p className="soft">{s.about(done, steps.length)}</p>
      <ol className="checklist">
        {steps.map((step) => (
          <li key={step.name} className={step.done ? 'done' : undefined}>
            {step.done ? <CircleCheck size={18} role="img" aria-label={s.done} /> : <Circle size={18} role="img" aria-label={s.open} />}
            <div>
              <p>{step.name}</p>
              {!step.done && step.about && <p className="soft">{step.about}</p>}
            </div>
            {!step.done && step.act}
            {!step.done && step.command && (
              <details>
                <summary className="soft">{s.command}</summary>
                <Code text={step.command} label={s.command} />
              </details>
            )}
          </li>
        ))}
      </ol>
      {creating && (
        <Suspense fallback={null}>
          <Token onClose={() => setCreating(false)} />
        </Suspense>
      )}
    </Panel>
  )
}
