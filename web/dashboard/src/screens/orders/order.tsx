import { getOrder, listBenefitGrants } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { showLabel } from '@bursar/views'
import { Link, useParams } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import { useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island, may } from '../../app/island.ts'
import { one, useSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Id, Json, Money, Status, Time } from '../../kit/bits.tsx'
import { Detail, Facts, Head, Panel, Tabs } from '../../kit/layout.tsx'
import { Failed, Loaded, Skeleton } from '../../kit/states.tsx'
import { toneOf } from '../../kit/words.ts'
import { History } from './history.tsx'

const Documents = lazy(() => import('./documents.tsx'))
const Refund = lazy(() => import('./refund.tsx'))

type OrderData = Received<typeof getOrder>

export const OrderScreen = () => {
  const { id } = useParams({ strict: false }) as { id: string }
  const tab = one(useSearch().tab) ?? 'history'
  const [refunding, setRefunding] = useState(false)
  const read = useRead(getOrder, { params: { id } })
  useAsCode(getOrder, { params: { id } })
  const order = read.data
  const crumb = { to: '/orders', name: t.orders.title }
  if (order === undefined)
    return (
      <>
        <Head title={t.orders.title} crumb={crumb} />
        {read.error ? <Failed error={read.error} again={read.again} /> : <Skeleton lines={8} />}
      </>
    )
  return (
    <>
      <Head
        title={order.status === 'draft' ? t.orders.draft : t.orders.one(order.invoice_number ?? order.receipt_number ?? '')}
        crumb={crumb}
        status={<Status tone={toneOf(order.status)}>{t.orders.statuses[order.status]}</Status>}
      >
        {may('sales:manage') && order.paid && order.refundable_amount > 0 && (
          <button type="button" onClick={() => setRefunding(true)}>
            {t.orders.refund}
          </button>
        )}
      </Head>
      {refunding && (
        <Suspense fallback={null}>
          <Refund order={order} onClose={() => setRefunding(false)} />
        </Suspense>
      )}
      <Detail aside={<OrderFacts order={order} />}>
        <Lines order={order} />
        {order.paid && (
          <Suspense fallback={<Skeleton lines={2} />}>
            <Documents order={order} />
          </Suspense>
        )}
        <Tabs
          label={t.parts}
          current={tab}
          tabs={[
            { name: 'history', label: t.orders.history },
            { name: 'grants', label: t.orders.grants },
            { name: 'json', label: t.orders.json },
          ]}
        />
        {tab === 'grants' ? (
          <Grants id={id} customer_id={order.customer.id} />
        ) : tab === 'json' ? (
          <Json value={order} label={t.orders.json} />
        ) : (
          <History id={id} />
        )}
      </Detail>
    </>
  )
}

const OrderFacts = ({ order }: { order: OrderData }) => {
  const { customer, product } = order
  const f = t.orders.facts
  return (
    <Facts
      list={[
        [
          f.customer,
          <Link key="c" to={`/customers/${customer.id}` as '/'}>
            {customer.name ?? customer.email ?? t.orders.unnamed}
          </Link>,
        ],
        [
          f.product,
          product && (
            <Link key="p" to={`/products/${product.id}` as '/'}>
              {product.name}
            </Link>
          ),
        ],
        [f.reason, t.orders.reasons[order.billing_reason]],
        [f.created, <Time key="t" at={order.created_at} />],
        [t.orders.nextTry, order.next_payment_attempt_at && <Time at={order.next_payment_attempt_at} />],
        [f.seats, order.seats],
        [f.invoice, order.invoice_number],
        [t.orders.receipt, order.receipt_number],
        [f.address, order.billing_name],
        [f.id, <Id key="i" value={order.id} />],
      ]}
    />
  )
}

const Lines = ({ order }: { order: OrderData }) => {
  const { currency } = order
  const isTaxIncluded = order.net_amount !== order.subtotal_amount - order.discount_amount
  // The shown rows add up to the total: included tax is named as such, and the balance pays a part of the total.
  const sums: readonly (readonly [string, number, boolean])[] = [
    [t.orders.subtotal, order.subtotal_amount, true],
    [t.orders.discount, -order.discount_amount, order.discount_amount !== 0],
    [isTaxIncluded ? t.orders.taxIncluded : t.orders.tax, order.tax_amount, true],
  ]
  const refunded = order.refunded_amount + order.refunded_tax_amount
  return (
    <Panel title={t.orders.lines} flush>
      <table className="lines">
        <thead>
          <tr>
            <th scope="col">{t.orders.line}</th>
            <th scope="col" className="amount">
              {t.orders.columns.amount}
            </th>
          </tr>
        </thead>
        <tbody>
          {order.items.map(({ id, label, amount, proration }) => (
            <tr key={id}>
              <th scope="row">
                {showLabel(island.locale, { label, amount, proration }, order.seats)} {proration && <span className="tag">{t.orders.proration}</span>}
              </th>
              <td className="amount">
                <Money amount={amount} currency={currency} />
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          {sums
            .filter(([, , shown]) => shown)
            .map(([name, amount]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td className="amount">
                  <Money amount={amount} currency={currency} plain />
                </td>
              </tr>
            ))}
          <tr className="sum">
            <th scope="row">{t.orders.total}</th>
            <td className="amount">
              <Money amount={order.total_amount} currency={currency} />
            </td>
          </tr>
          {order.applied_balance_amount !== 0 && (
            <tr>
              <th scope="row">{t.orders.balance}</th>
              <td className="amount">
                <Money amount={order.applied_balance_amount} currency={currency} />
              </td>
            </tr>
          )}
          {refunded > 0 && (
            <tr>
              <th scope="row">{t.orders.refundedSoFar}</th>
              <td className="amount">
                <Money amount={refunded} currency={currency} />
              </td>
            </tr>
          )}
          {order.due_amount > 0 && order.status === 'pending' && (
            <tr>
              <th scope="row">{t.orders.due}</th>
              <td className="amount">
                <Money amount={order.due_amount} currency={currency} />
              </td>
            </tr>
          )}
        </tfoot>
      </table>
    </Panel>
  )
}

const Grants = ({ id, customer_id }: { id: string; customer_id: string }) => {
  const grants = useRead(listBenefitGrants, { query: { order_id: [id], limit: 100 } })
  return (
    <Loaded read={grants}>
      {({ items }) =>
        items.length === 0 ? (
          <p className="soft">
            {t.orders.noGrants} {may('products:read') && <Link to={`/customers/${customer_id}/access` as '/'}>{t.orders.whyNot}</Link>}
          </p>
        ) : (
          <ul className="rows">
            {items.map((grant) => (
              <li key={grant.id}>
                <span>{grant.benefit.description}</span>
                <Status tone={grant.is_granted ? 'good' : 'off'}>{grant.is_granted ? t.customers.granted : t.customers.notGranted}</Status>
              </li>
            ))}
          </ul>
        )
      }
    </Loaded>
  )
}
