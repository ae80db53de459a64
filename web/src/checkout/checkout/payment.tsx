import { Choice, complaintAt, refusedBy, speak, textsIn } from '../../kit/index.ts'
import { ProcessorForm } from '../../kit/processor/processor.tsx'
import { declineKind } from './declines.ts'
import { payment, type Part } from './fields.ts'
import { agreement, orderLabel } from './order.ts'
import { orderedName, pricesOf } from './prices.ts'
import { texts } from './texts.ts'

/** The card: a test card of the sandbox, or the payment processor's form. */
export const Payment = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, cards, publishable_key, methods, declined, draft, complaints } = view
  const error =
    declined === null ? complaintAt(frame, complaints, payment) : `${refusedBy(frame, declined)} ${words.advice[declineKind(declined)]} ${words.nothingCharged}`
  const autoFocus = view.focus === payment
  return (
    <section aria-labelledby="payment">
      <h2 id="payment">{words.payment}</h2>
      <Saved view={view} frame={frame} />
      <div className="new-method">
        {cards && (
          <Choice name={payment} label={words.card} hint={words.cardHint} value={draft[payment] ?? cards[0]?.token ?? ''} error={error} autoFocus={autoFocus}>
            {cards.map(({ token, type, brand, last4, says }) => (
              <option key={token} value={token}>
                {`${type === 'card' ? cap(brand ?? '') : words.debit} ···· ${last4}: ${t.cards[token] ?? says}`}
              </option>
            ))}
          </Choice>
        )}
        {publishable_key && (
          <ProcessorForm
            frame={frame}
            form={{
              key: publishable_key,
              currency: offer.currency,
              reusable: offer.is_payment_setup_required,
              methods,
              ...(offer.is_payment_required ? { amount: offer.total_amount } : {}),
            }}
            error={error}
            autoFocus={autoFocus}
          />
        )}
      </div>
    </section>
  )
}

/** The saved methods of a customer whom the seller has named. After a decline, a new method is preselected, and its form shows the reason. */
const Saved = ({ view, frame }: Part) => {
  const words = textsIn(frame, texts)
  const { offer, declined, draft, complaints } = view
  const methods = offer.saved_payment_methods
  if (methods.length === 0) return null
  const error = complaintAt(frame, complaints, 'payment_method_id')
  const chosen = declined === null ? (draft.payment_method_id ?? methods[0]!.id) : ''
  return (
    <fieldset className="saved-methods">
      <legend>{words.payWith}</legend>
      {methods.map(({ id, type, brand, last4, exp_month, exp_year }) => (
        <label key={id}>
          <input type="radio" name="payment_method_id" value={id} defaultChecked={chosen === id} />
          <span>
            {type === 'card' ? cap(brand ?? '') : words.debit}
            {last4 !== null && ` ···· ${last4}`}
          </span>
          {exp_month !== null && exp_year !== null && <span className="soft">{words.savedExpires(exp_month, exp_year)}</span>}
        </label>
      ))}
      <label>
        <input type="radio" name="payment_method_id" value="" defaultChecked={!methods.some(({ id }) => id === chosen)} />
        <span>{words.otherMethod}</span>
      </label>
      {error && <p className="error">{error}</p>}
    </fieldset>
  )
}

const cap = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1)

/** The essential facts of the order, and directly below them the button that places it, as § 312j BGB requires. */
export const Pay = ({ view, frame }: Part) => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, schedule } = view
  const { product, tax_amount } = offer
  const isTaxed = tax_amount !== null && tax_amount > 0 && schedule.today > 0
  const { amount, condition } = orderLabel(frame, view)
  return (
    <>
      <section id="terms" aria-labelledby="order">
        {/* The displayed price. If the price has changed, the new price is shown before payment. */}
        <input type="hidden" name="shown" value={view.shown} />
        <h2 id="order">{words.summary}</h2>
        {product && <p className="ordered">{orderedName(frame, offer, product)}</p>}
        {agreement(frame, view).map((sentence) => (
          <p key={sentence} className="soft">
            {sentence}
          </p>
        ))}
        {product?.recurring_interval && pricesOf(offer, product.id).length > 0 && (
          <p className="soft">{words.renews(words.span[product.recurring_interval](product.recurring_interval_count ?? 1))}</p>
        )}
      </section>
      <div className="paying">
        <p id="total" className="total">
          <span>{words.dueToday}</span>{' '}
          <span>
            <strong className="amount">{money(schedule.today, offer.currency)}</strong>
            {isTaxed && <small> {words.withTax(money(tax_amount, offer.currency))}</small>}
          </span>
        </p>
        {/* The script replaces only the text of the button, so that a click during the replacement is not lost. */}
        <button className="primary" formAction={`/checkout/${offer.id}/confirm`} data-whole="">
          <span id="price-to-pay">
            {words.order[condition]} {amount !== '' && <span>{amount}</span>}
          </span>
        </button>
        {/* The buttons of wallets. They stand below the facts of the order, like every button that places the order. */}
        {view.publishable_key && <div id="express-checkout" role="group" aria-label={words.express} hidden />}
      </div>
    </>
  )
}
