import type { Frame, PortalMethod, PortalOrder, View } from '@bursar/contract'
import { Form, Notice, refusedBy, speak, Status } from '../kit.tsx'
import { Portal } from './portal-shell.tsx'

const kinds = { draft: 'off', pending: 'wait', paid: 'good', refunded: 'off', partially_refunded: 'good', void: 'off' } as const

export const OrderStatus = ({ frame, order: { status } }: { frame: Frame; order: PortalOrder }) => (
  <Status kind={kinds[status]}>{speak(frame).t.portal.manage.orders.status[status]}</Status>
)

export const OrderTable = ({ frame, base, orders }: { frame: Frame; base: string; orders: readonly PortalOrder[] }) => {
  const { t, date, money } = speak(frame)
  const { columns } = t.portal.manage.orders
  return (
    <table className="orders">
      <thead>
        <tr>
          <th scope="col">{columns.what}</th>
          <th scope="col">{columns.date}</th>
          <th scope="col">{columns.status}</th>
          <th scope="col" className="amount">
            {columns.total}
          </th>
        </tr>
      </thead>
      <tbody>
        {orders.map((order) => (
          <tr key={order.id}>
            <th scope="row">
              <a href={`${base}/orders/${order.id}`}>{order.description}</a>
            </th>
            <td data-label={columns.date}>{date(order.created_at)}</td>
            <td data-label={columns.status}>
              <OrderStatus frame={frame} order={order} />
            </td>
            <td data-label={columns.total} className="amount">
              {money(order.total_amount, order.currency)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** A saved card as people know it. */
export const methodName = (frame: Frame, method: PortalMethod): string => {
  const { card } = speak(frame).t.portal.manage.billing
  if (!('method_metadata' in method)) return method.type
  const { brand, last4 } = method.method_metadata
  return card(cap(brand), last4)
}

export const cap = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)

export const Orders = ({ view, frame }: { view: Extract<View, { kind: 'portal-orders' }>; frame: Frame }) => {
  const { t } = speak(frame)
  const { shell, orders } = view
  const words = t.portal.manage
  const base = `/${shell.seller.slug}/portal`
  return (
    <Portal frame={frame} shell={shell} section="orders" title={words.orders.title}>
      <h1>{words.orders.title}</h1>
      {orders.length === 0 ? (
        <p className="empty">{words.orders.none}</p>
      ) : (
        <div className="card">
          <OrderTable frame={frame} base={base} orders={orders} />
        </div>
      )}
      <Pages frame={frame} page={view.page} pages={view.pages} href={(page) => `${base}/orders?page=${page}`} />
      <p className="soft">{words.zone}</p>
    </Portal>
  )
}

/** Which page of several, and the way to the others; nothing for a single one. */
export const Pages = ({ frame, page, pages, href }: { frame: Frame; page: number; pages: number; href: (page: number) => string }) => {
  const words = speak(frame).t.portal.manage.team
  if (pages <= 1) return null
  return (
    <p className="links">
      {page > 1 && <a href={href(page - 1)}>{words.earlier}</a>} <span className="soft">{words.page(page, pages)}</span>{' '}
      {page < pages && <a href={href(page + 1)}>{words.later}</a>}
    </p>
  )
}

/** One order: what it is made of, how it stands, and the way to pay it where it is open. */
export const OrderPage = ({ view, frame }: { view: Extract<View, { kind: 'portal-order' }>; frame: Frame }) => {
  const { t, date, money } = speak(frame)
  const { order, methods } = view
  const words = t.portal.manage.orders
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
        {order.seats !== null && <span>{t.portal.manage.seats(order.seats)}</span>}
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
              {words.noMethod} <a href={`${base}/billing`}>{words.addMethod}</a>
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
      <p className="soft">{t.portal.manage.zone}</p>
    </Portal>
  )
}
