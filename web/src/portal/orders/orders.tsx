import type { Frame, View } from '@bursar/views'
import { Form, Notice, refusedBy, speak, textsIn } from '../../kit/index.ts'
import { methodName } from '../methods.ts'
import { OrderStatus, OrderTable } from '../order-table.tsx'
import { Pages } from '../pages.tsx'
import { Portal } from '../shell.tsx'
import { portalTexts } from '../texts.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

export const Orders = ({ view, frame }: { view: Extract<View, { kind: 'portal-orders' }>; frame: Frame }) => {
  const words = textsIn(frame, texts)
  const shared = textsIn(frame, portalTexts)
  const { shell, orders } = view
  const base = `/${shell.seller.slug}/portal`
  return (
    <Portal frame={frame} shell={shell} section="orders" title={words.title}>
      <h1>{words.title}</h1>
      {orders.length === 0 ? (
        <p className="empty">{words.none}</p>
      ) : (
        <div className="card">
          <OrderTable frame={frame} base={base} orders={orders} />
        </div>
      )}
      <Pages frame={frame} page={view.page} pages={view.pages} href={(page) => `${base}/orders?page=${page}`} />
      <p className="soft">{shared.zone}</p>
    </Portal>
  )
}

/** The page of one order: its lines, its status, and a payment form if the order is unpaid. */
export const OrderPage = ({ view, frame }: { view: Extract<View, { kind: 'portal-order' }>; frame: Frame }) => {
  const { date, money } = speak(frame)
  const shared = textsIn(frame, portalTexts)
  const { order, methods } = view
  const words = textsIn(frame, texts)
  const base = `/${view.shell.seller.slug}/portal`
  const cash = (amount: number) => money(amount, order.currency)
  const declined = view.shell.complaints.find(({ type }) => type === 'declined')
  const shell = declined ? { ...view.shell, complaints: [] } : view.shell
  const sums: (readonly [string, number])[] = [
    [words.subtotal, order.subtotal_amount],
    ...(order.discount_amount > 0 ? [[words.discount, 0 - order.discount_amount] as const] : []),
    [words.tax, order.tax_amount],
    [words.total, order.total_amount],
    ...(order.applied_balance_amount !== 0 ? [[words.balance, order.applied_balance_amount] as const] : []),
    ...(order.status === 'pending' ? [[words.due, order.due_amount] as const] : []),
    ...(order.refunded_amount + order.refunded_tax_amount > 0 ? [[words.refunded, 0 - order.refunded_amount - order.refunded_tax_amount] as const] : []),
  ]
  return (
    <Portal frame={frame} shell={shell} section="orders" title={words.one(order.description)} refresh={view.waits || shell.done === 'order_paying' ? 2 : null}>
      {view.waits && <Notice>{words.waits}</Notice>}
      <p>
        <a href={`${base}/orders`}>{words.back}</a>
      </p>
      <div className="heading">
        <h1>{words.one(order.description)}</h1>
        <OrderStatus frame={frame} order={order} />
      </div>
      <p className="soft facts">
        <span>{words.from(date(order.created_at))}</span>
        {order.invoice_number && <span>{words.number(order.invoice_number)}</span>}
        {order.seats !== null && <span>{shared.seats(order.seats)}</span>}
      </p>
      {declined && (
        <div className="notice bad" role="alert">
          <p>{words.declined(refusedBy(frame, declined.msg))}</p>
        </div>
      )}
      {order.status === 'pending' && shell.done !== 'order_paying' && (
        <section className="card" aria-labelledby="pay">
          <h2 id="pay">{words.pay}</h2>
          {order.next_payment_attempt_at && <p>{words.nextTry(date(order.next_payment_attempt_at))}</p>}
          {methods.length === 0 ? (
            <p>
              {words.noMethod} <a href={`${base}/billing`}>{shared.addMethod}</a>
            </p>
          ) : (
            <Form frame={frame} action={`${base}/orders/${order.id}`}>
              <div className="field">
                <label htmlFor="payment_method_id">{words.payWith}</label>
                <select id="payment_method_id" name="payment_method_id">
                  {methods.map((method) => (
                    <option key={method.id} value={method.id}>
                      {methodName(frame, method)}
                    </option>
                  ))}
                </select>
              </div>
              <button className="primary">{words.payNow(cash(order.due_amount))}</button>
            </Form>
          )}
        </section>
      )}
      <section className="card" aria-labelledby="lines">
        <h2 id="lines">{words.lines}</h2>
        <table className="sums">
          <tbody>
            {order.items.map((line) => (
              <tr key={line.id}>
                <th scope="row">{line.label}</th>
                <td className="amount">{cash(line.amount)}</td>
              </tr>
            ))}
            {sums.map(([label, amount], at) => (
              <tr key={label} className={at === 0 ? 'first' : label === words.total ? 'total' : undefined}>
                <th scope="row">{label}</th>
                <td className="amount">{cash(amount)}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {view.refunds.map((refund) => (
          <p key={refund.id} className="facts">
            <span>{words.givenBack(cash(refund.amount + refund.tax_amount), date(refund.created_at))}</span>
            <a href={`${base}/orders/${order.id}/refunds/${refund.id}`}>{words.creditNote(refund.credit_note_number)}</a>
          </p>
        ))}
        {order.paid && (
          <div className="links">
            {order.is_invoice_generated ? (
              <a href={`${base}/orders/${order.id}/invoice`}>{words.invoice}</a>
            ) : (
              <Form frame={frame} action={`${base}/orders/${order.id}`}>
                <button name="do" value="invoice">
                  {words.askInvoice}
                </button>
              </Form>
            )}
            <a href={`${base}/orders/${order.id}/receipt`}>{words.receipt}</a>
          </div>
        )}
      </section>
      {(order.billing_name ?? order.billing_address) && (
        <section className="card" aria-labelledby="billed">
          <h2 id="billed">{words.billedTo}</h2>
          <address>
            {[order.billing_name, order.billing_address?.line1, order.billing_address?.line2]
              .concat([order.billing_address?.postal_code, order.billing_address?.city].filter(Boolean).join(' '))
              .concat(order.billing_address ? (new Intl.DisplayNames(frame.locale, { type: 'region' }).of(order.billing_address.country) ?? '') : [])
              .filter(Boolean)
              .map((line, at) => (
                <span key={at}>{line}</span>
              ))}
          </address>
        </section>
      )}
      <p className="soft">{shared.zone}</p>
    </Portal>
  )
}
