import type { Frame, View } from '@bursar/views'
import { speak, textsIn } from '../../kit/index.ts'
import { OrderTable } from '../order-table.tsx'
import { PlanHead } from '../plan.tsx'
import { Portal } from '../shell.tsx'
import { Dated, Zone } from '../dated.tsx'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<View, { kind: 'portal-overview' }>; frame: Frame }

/** The overview: open payments first, then subscriptions with their next charge. */
export const Overview = ({ view, frame }: Props) => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const { shell } = view
  const base = `/${shell.seller.slug}/portal`
  return (
    <Portal frame={frame} shell={shell} section="overview" title={words.title}>
      <h1>{words.title}</h1>
      {view.owed.map((order) => (
        <section key={order.id} className="notice bad owed" aria-label={words.owed}>
          <h2>{words.owed}</h2>
          <p>
            {words.owedAmount(money(order.due_amount, order.currency), order.description)}{' '}
            {order.next_payment_attempt_at && <Dated frame={frame} at={order.next_payment_attempt_at} text={words.nextTry} />}
          </p>
          <p className="links">
            <a href={`${base}/orders/${order.id}`}>{words.payNow}</a> <a href={`${base}/billing?flow=payment_method`}>{words.updateCard}</a>
          </p>
        </section>
      ))}
      {view.plans.length === 0 && <p className="empty">{words.none}</p>}
      {view.plans.map((plan) => {
        const { subscription: one } = plan
        const benefits = one.product.benefits.map(({ description }) => description)
        return (
          <section key={one.id} className="card" aria-labelledby={`plan-${one.id}`}>
            <PlanHead frame={frame} plan={plan} />
            {benefits.length > 0 && (
              <>
                <h3>{words.includes}</h3>
                <ul className="ticks">
                  {benefits.map((benefit, at) => (
                    <li key={at}>{benefit}</li>
                  ))}
                </ul>
              </>
            )}
            <p className="links">
              {plan.seats && <a href={`${base}/team`}>{words.team}</a>}{' '}
              {shell.has_usage && one.meters.length > 0 && <a href={`${base}/usage`}>{words.usage}</a>} <a href={`${base}/subscriptions`}>{words.manage}</a>
            </p>
          </section>
        )
      })}
      <section className="card" aria-labelledby="orders">
        <h2 id="orders">{words.orders}</h2>
        {view.orders.length === 0 ? <p className="soft">{words.noOrders}</p> : <OrderTable frame={frame} base={base} orders={view.orders} />}
        {view.orders.length > 0 && (
          <p className="links">
            <a href={`${base}/orders`}>{words.allOrders}</a>
          </p>
        )}
      </section>
      <Zone frame={frame} />
    </Portal>
  )
}
