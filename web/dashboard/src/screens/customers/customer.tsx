import { getCustomer, listOrders } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { Link, useParams } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { may } from '../../app/island.ts'
import { one, useSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Id, Json, Money, Status, Time } from '../../kit/bits.tsx'
import { Detail, Facts, Head, Panel, Tabs } from '../../kit/layout.tsx'
import { Failed, Loaded, Skeleton } from '../../kit/states.tsx'
import { toneOf } from '../../kit/words.ts'
import { Notes } from './notes.tsx'
import { Subscriptions } from './subscriptions.tsx'

const People = lazy(() => import('./people.tsx'))
const Grants = lazy(() => import('./grants.tsx'))
const Usage = lazy(() => import('./usage.tsx'))
const Events = lazy(() => import('./events.tsx'))

type CustomerData = Received<typeof getCustomer>

export const CustomerScreen = () => {
  const { id } = useParams({ strict: false }) as { id: string }
  const tab = one(useSearch().tab) ?? 'overview'
  const read = useRead(getCustomer, { params: { id } })
  useAsCode(getCustomer, { params: { id } })
  const crumb = { to: '/customers', name: t.customers.title }
  const customer = read.data
  if (customer === undefined)
    return (
      <>
        <Head title={t.customers.title} crumb={crumb} />
        {read.error ? <Failed error={read.error} again={read.again} /> : <Skeleton lines={8} />}
      </>
    )
  const tabs = t.customers.tabs
  const names = [
    'overview',
    'people',
    ...(may('sales:read') ? ['orders'] : []),
    'grants',
    'usage',
    ...(may('organization:manage') ? ['events'] : []),
    'json',
  ] as (keyof typeof tabs)[]
  return (
    <>
      <Head
        title={customer.name ?? customer.email ?? t.customers.unnamed}
        crumb={crumb}
        status={<span className="tag">{t.customers.types[customer.type]}</span>}
      >
        {may('customers:manage') && tab !== 'people' && (
          <Link to="." search={{ tab: 'people' } as never} className="button">
            {t.customers.openPortal}
          </Link>
        )}
      </Head>
      <Detail aside={<CustomerFacts customer={customer} />}>
        <Tabs label={t.parts} current={tab} tabs={names.map((name) => ({ name, label: tabs[name] }))} />
        <Suspense fallback={<Skeleton />}>
          {tab === 'people' ? (
            <People customer={customer} />
          ) : tab === 'orders' ? (
            <OrdersOf id={id} />
          ) : tab === 'grants' ? (
            <Grants id={id} />
          ) : tab === 'usage' ? (
            <Usage id={id} />
          ) : tab === 'events' ? (
            <Events id={id} />
          ) : tab === 'json' ? (
            <Json value={customer} label={tabs.json} />
          ) : (
            <>
              <Subscriptions id={id} />
              {may('sales:read') && (
                <Panel title={tabs.orders}>
                  <OrdersOf id={id} limit={5} />
                </Panel>
              )}
              <Notes customer={customer} />
            </>
          )}
        </Suspense>
      </Detail>
    </>
  )
}

const CustomerFacts = ({ customer }: { customer: CustomerData }) => {
  const f = t.customers.facts
  return (
    <Facts
      list={[
        [f.email, customer.email],
        [f.type, t.customers.types[customer.type]],
        [f.external, customer.external_id],
        [f.country, customer.billing_address?.country],
        [f.language, customer.locale],
        [f.created, <Time key="t" at={customer.created_at} />],
        [f.id, <Id key="i" value={customer.id} />],
      ]}
    />
  )
}

const OrdersOf = ({ id, limit = 50 }: { id: string; limit?: number }) => {
  const read = useRead(listOrders, { query: { customer_id: [id], limit } })
  return (
    <Loaded read={read}>
      {({ items }) =>
        items.length === 0 ? (
          <p className="soft">{t.customers.noOrders}</p>
        ) : (
          <ul className="rows">
            {items.map((order) => (
              <li key={order.id}>
                <Link to={`/orders/${order.id}` as '/'}>{order.product?.name ?? order.description}</Link>
                <Status tone={toneOf(order.status)}>{t.orders.statuses[order.status]}</Status>
                <Time at={order.created_at} />
                <Money amount={order.total_amount} currency={order.currency} />
              </li>
            ))}
          </ul>
        )
      }
    </Loaded>
  )
}
