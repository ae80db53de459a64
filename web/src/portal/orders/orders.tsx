import type { Frame, PortalOrder, View } from '@bursar/views'
import { Choice, complaintAt, Copy, Form, Notice, refusedBy, speak, textsIn } from '../../kit/index.ts'
import { ProcessorForm } from '../../kit/processor/processor.tsx'
import { cap, methodName } from '../methods.ts'
import { OrderStatus, OrderTable } from '../order-table.tsx'
import { Pages } from '../pages.tsx'
import { Portal } from '../shell.tsx'
import { Sums, sumsOf, type SumRow } from '../sums.tsx'
import { Dated, Day, Zone } from '../dated.tsx'
import { portalTexts } from '../texts.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

export const Orders = ({ view, frame }: { view: Extract<View, { kind: 'portal-orders' }>; frame: Frame }) => {
  const words = textsIn(frame, texts)
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
      <Zone frame={frame} />
    </Portal>
  )
}

/** Returns the rows of an order: its bill, the amount to pay or paid, and what was refunded of it. */
const rowsOf = (frame: Frame, order: PortalOrder): SumRow[] => {
  const words = textsIn(frame, texts)
  const { status, due_amount, total_amount } = order
  const open = status === 'pending' || status === 'draft'
  // An order without a receipt number charged nothing: the balance paid it, or the amount was too small to charge.
  const paid = order.receipt_number === null ? 0 : due_amount
  const left = open ? { label: words.due, amount: due_amount } : order.paid && paid !== total_amount ? { label: words.paid, amount: paid } : null
  const back = order.refunded_amount + order.refunded_tax_amount
  return [
    ...sumsOf(frame, { ...order, lines: order.items }, left),
    ...(back === 0
      ? []
      : [
          { label: words.refunded, amount: 0 - back },
          { label: words.kept, amount: (left?.amount ?? total_amount) - back, kind: 'total' as const },
        ]),
  ]
}

/** The page of one order: its lines, its status, and a payment form if the order is unpaid. */
export const OrderPage = ({ view, frame }: { view: Extract<View, { kind: 'portal-order' }>; frame: Frame }) => {
  const { t, money } = speak(frame)
  const shared = textsIn(frame, portalTexts)
  const { order, methods } = view
  const words = textsIn(frame, texts)
  const base = `/${view.shell.seller.slug}/portal`
  const cash = (amount: number) => money(amount, order.currency)
  const declined = view.shell.complaints.find(({ type }) => type === 'declined')
  const lacksDetails = view.shell.complaints.some(({ type }) => type === 'invoice_details')
  const shell = declined || lacksDetails ? { ...view.shell, complaints: [] } : view.shell
  const cardError = complaintAt(frame, shell.complaints, 'confirmation_token_id')
  return (
    <Portal
      frame={frame}
      shell={shell}
      section="orders"
      title={words.one(order.description)}
      scripts={view.form ? ['/assets/stripe.js'] : []}
      refresh={view.waits || shell.done === 'order_paying' ? 2 : null}
    >
      {lacksDetails && (
        <Notice kind="warn">
          <p>
            {words.needsDetails} <a href={`${base}/billing`}>{shared.sections.billing}</a>
          </p>
        </Notice>
      )}
      {view.waits && <Notice>{words.waits}</Notice>}
      {view.offers_invoice && (
        <Notice>
          <p>{words.noInvoice}</p>
          <Form frame={frame} action={`${base}/orders/${order.id}`} label={words.createInvoice}>
            <input type="hidden" name="do" value="invoice" />
            <button className="primary">{words.createInvoice}</button>
          </Form>
        </Notice>
      )}
      <p className="unprinted">
        <a href={`${base}/orders`}>{words.back}</a>
      </p>
      <div className="heading">
        <h1>{words.one(order.description)}</h1>
        <OrderStatus frame={frame} order={order} />
      </div>
      <dl className="ids">
        <div>
          <dt>{shared.orderColumns.date}</dt>
          <dd>
            <Day frame={frame} at={order.created_at} />
          </dd>
        </div>
        {order.invoice_number && (
          <div>
            <dt>{words.number}</dt>
            <dd>
              <span id="invoice-number">{order.invoice_number}</span> <Copy frame={frame} of="invoice-number" what={words.number} />
            </dd>
          </div>
        )}
        <div>
          <dt>{words.id}</dt>
          <dd>
            <code id="order-id">{order.id}</code> <Copy frame={frame} of="order-id" what={words.id} />
          </dd>
        </div>
        {order.seats !== null && (
          <div>
            <dt>{words.seats}</dt>
            <dd>{order.seats}</dd>
          </div>
        )}
      </dl>
      {declined && (
        <div className="notice bad" role="alert">
          <p>{words.declined(refusedBy(frame, declined.msg))}</p>
        </div>
      )}
      {order.status === 'pending' && shell.done !== 'order_paying' && (
        <section className="card slim unprinted" aria-labelledby="pay">
          <h2 id="pay">{words.pay}</h2>
          {order.next_payment_attempt_at && <p>{<Dated frame={frame} at={order.next_payment_attempt_at} text={words.nextTry} />}</p>}
          {methods.length > 0 && (
            <Form frame={frame} action={`${base}/orders/${order.id}`} label={words.pay}>
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
          {(view.cards ?? view.form) && (
            <details className="fold" open={methods.length === 0 || cardError !== undefined}>
              <summary>{words.otherCard}</summary>
              <Form frame={frame} action={`${base}/orders/${order.id}`} label={words.otherCard}>
                {view.cards && (
                  <Choice name="confirmation_token_id" label={words.card} value={view.cards[0]!.token} error={cardError}>
                    {view.cards.map(({ token, brand, last4, says }) => (
                      <option key={token} value={token}>
                        {`${shared.card(cap(brand ?? ''), last4 ?? '')}: ${t.cards[token] ?? says}`}
                      </option>
                    ))}
                  </Choice>
                )}
                {view.form && <ProcessorForm frame={frame} form={view.form} error={cardError} />}
                {order.subscription_id !== null && <p className="soft">{words.cardSaved}</p>}
                <button className={methods.length === 0 ? 'primary' : undefined} data-whole="">
                  {words.payNow(cash(order.due_amount))}
                </button>
              </Form>
            </details>
          )}
        </section>
      )}
      <section className="card" aria-labelledby="lines">
        <h2 id="lines">{words.lines}</h2>
        <Sums frame={frame} rows={rowsOf(frame, order)} currency={order.currency} caption={shared.sums.items} />
        {view.refunds.map((refund) => (
          <p key={refund.id} className="facts">
            <span>
              <Dated frame={frame} at={refund.created_at} text={(day) => words.givenBack(cash(refund.amount + refund.tax_amount), day)} />
            </span>
            <a href={`${base}/orders/${order.id}/refunds/${refund.id}`}>{words.creditNote(refund.credit_note_number)}</a>
          </p>
        ))}
        {order.paid && (
          <div className="links unprinted">
            {!view.offers_invoice && <a href={`${base}/orders/${order.id}/invoice`}>{words.invoice}</a>}
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
      <Zone frame={frame} />
    </Portal>
  )
}
