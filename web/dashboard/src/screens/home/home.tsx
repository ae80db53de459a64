import { getTaxSettings, listOrders, listWebhookEndpoints } from '@bursar/contract'
import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { FirstSteps } from './first-steps.tsx'
import { Revenue } from './revenue.tsx'
import { useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island, may } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { Money, Status, Time } from '../../kit/bits.tsx'
import { number } from '../../kit/format.ts'
import { Head, Panel } from '../../kit/layout.tsx'
import { Loaded } from '../../kit/states.tsx'
import { toneOf } from '../../kit/words.ts'

/** The orders of today, and everything that needs attention. A box appears only while there is something to do. */
export const Home = () => {
  const midnight = useMemo(() => new Date(new Date().setHours(0, 0, 0, 0)).toISOString(), [])
  const sees = may('sales:read')
  const today = useRead(listOrders, { query: { created_after: midnight, limit: 1 } }, { enabled: sees })
  const unpaid = useRead(listOrders, { query: { status: ['pending'], limit: 1 } }, { enabled: sees })
  const latest = useRead(listOrders, { query: { limit: 8 } }, { enabled: sees })
  const endpoints = useRead(listWebhookEndpoints, { query: { limit: 100 } }, { enabled: may('organization:manage') })
  const taxes = useRead(getTaxSettings, { query: { organization_id: island.organization.id } }, { enabled: may('organization:manage') && may('finance:read') })
  useAsCode(listOrders, { query: { created_after: midnight } })
  const failing = endpoints.data?.items.filter(({ failing_since, enabled }) => failing_since !== null || !enabled) ?? []
  const due = unpaid.data?.pagination.total_count ?? 0
  // Saved settings without a tax are a decision, and need no attention.
  const isUntaxed = taxes.data?.modified_at === null && taxes.data.provider === 'none'
  return (
    <>
      <Head title={t.home.title} />
      {may('organization:manage') && <FirstSteps />}
      {(due > 0 || failing.length > 0 || isUntaxed) && (
        <Panel title={t.home.attention}>
          <ul className="rows">
            {due > 0 && (
              <li>
                <Link to={'/orders'} search={{ status: ['pending'] } as never}>
                  <Status tone="wait">{t.home.unpaidAbout(due)}</Status>
                </Link>
              </li>
            )}
            {isUntaxed && (
              <li>
                <Link to={'/settings'} search={{ tab: 'taxes' } as never}>
                  <Status tone="wait">{t.home.taxAbout}</Status>
                </Link>
              </li>
            )}
            {failing.map(({ id, name, url, enabled }) => (
              <li key={id}>
                <Link to={`/webhooks/${id}` as '/'}>
                  <Status tone="bad">{enabled ? t.home.failingAbout(name ?? url) : t.home.pausedAbout(name ?? url)}</Status>
                </Link>
              </li>
            ))}
          </ul>
        </Panel>
      )}
      {sees && (
        <>
          <div className="figures">
            <Figure name={t.home.newOrders} value={today.data?.pagination.total_count} />
            <Figure name={t.home.unpaid} value={unpaid.data?.pagination.total_count} />
          </div>
          {may('analytics:read') && <Revenue />}
          <Panel title={t.home.recent} actions={<Link to={'/orders'}>{t.home.all}</Link>}>
            <Loaded read={latest} lines={8}>
              {({ items }) =>
                items.length === 0 ? (
                  <p className="soft">{t.orders.empty}</p>
                ) : (
                  <ul className="rows">
                    {items.map(({ id, customer, product, description, status, created_at, total_amount, currency }) => (
                      <li key={id}>
                        <span>
                          <Link to={`/orders/${id}` as '/'}>{customer.name ?? customer.email ?? t.orders.unnamed}</Link>{' '}
                          <span className="soft">{product?.name ?? description}</span>
                        </span>
                        <Status tone={toneOf(status)}>{t.orders.statuses[status]}</Status>
                        <Time at={created_at} />
                        <Money amount={total_amount} currency={currency} />
                      </li>
                    ))}
                  </ul>
                )
              }
            </Loaded>
          </Panel>
        </>
      )}
    </>
  )
}

const Figure = ({ name, value }: { name: string; value: number | undefined }) => (
  <div className="figure">
    <p>{name}</p>
    <strong>{value === undefined ? '–' : number(value)}</strong>
  </div>
)
