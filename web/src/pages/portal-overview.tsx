import type { Frame, View } from '@bursar/contract'
import { speak } from '../kit.tsx'
import { OrderTable } from './portal-orders.tsx'
import { PlanHead } from './portal-price.tsx'
import { Portal } from './portal-shell.tsx'

type Props = { view: Extract<View, { kind: 'portal-overview' }>; frame: Frame }

/** What is wrong first; then what there is, and what it costs next. */
export const Overview = ({ view, frame }: Props) => {
  const { t, date, money } = speak(frame)
  const { shell } = view
  const words = t.portal.manage
  const base = `/${shell.seller.slug}/portal`
  return (
    <Portal frame={frame} shell={shell} section="overview" title={words.overview.title}>
      <h1>{words.overview.title}</h1>
      {view.owed.map((order) => (
        <section key={order.id} className="notice bad owed" aria-label={words.overview.owed}>
          <h2>{words.overview.owed}</h2>
          <p>
            {words.overview.owedAmount(money(order.due_amount, order.currency), order.description)}{' '}
            {order.next_payment_attempt_at && words.overview.nextTry(date(order.next_payment_attempt_at))}
          </p>
          <p className="links">
            <a href={`${base}/orders/${order.id}`}>{words.overview.payNow}</a> <a href={`${base}/billing?flow=payment_method`}>{words.overview.updateCard}</a>
          </p>
        </section>
      ))}
      {view.plans.length === 0 && <p className="empty">{words.overview.none}</p>}
      {view.plans.map((plan) => {
        const { subscription: one } = plan
        const benefits = one.product.benefits.map(({ description }) => description)
        return (
          <section key={one.id} className="card" aria-labelledby={`plan-${one.id}`}>
            <PlanHead frame={frame} plan={plan} />
            {benefits.length > 0 && (
              <>
                <h3>{words.overview.includes}</h3>
                <ul className="ticks">
                  {benefits.map((benefit, at) => (
                    <li key={at}>{benefit}</li>
                  ))}
                </ul>
              </>
            )}
            <p className="links">
              {plan.seats && <a href={`${base}/team`}>{words.overview.team}</a>} <a href={`${base}/subscriptions`}>{words.overview.manage}</a>
            </p>
          </section>
        )
      })}
      <section className="card" aria-labelledby="orders">
        <h2 id="orders">{words.overview.orders}</h2>
        {view.orders.length === 0 ? <p className="soft">{words.overview.noOrders}</p> : <OrderTable frame={frame} base={base} orders={view.orders} />}
        {view.orders.length > 0 && (
          <p className="links">
            <a href={`${base}/orders`}>{words.overview.allOrders}</a>
          </p>
        )}
      </section>
      <p className="soft">{words.zone}</p>
    </Portal>
  )
}
