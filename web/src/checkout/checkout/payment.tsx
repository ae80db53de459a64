import { Choice, complaintAt, refusedBy, speak, textsIn } from '../../kit/index.ts'
import { ProcessorForm } from '../../kit/processor/processor.tsx'
import { intervalOf, type Part } from './prices.ts'
import { texts } from './texts.ts'

/** The card: a test card of the sandbox, or the payment processor's form. */
export const Payment = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, cards, publishable_key, declined, draft, complaints } = view
  const error = declined === null ? complaintAt(frame, complaints, 'confirmation_token_id') : `${refusedBy(frame, declined)} ${words.tryOther}`
  return (
    <section aria-labelledby="payment">
      <h2 id="payment">{words.payment}</h2>
      {cards && (
        <Choice
          name="confirmation_token_id"
          label={words.card}
          hint={words.cardHint}
          value={draft.confirmation_token_id ?? cards[0]?.token ?? ''}
          error={error}
        >
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
            ...(offer.is_payment_required ? { amount: offer.total_amount } : {}),
          }}
          error={error}
        />
      )}
    </section>
  )
}

const cap = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1)

export const Pay = ({ view, frame }: Part) => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, schedule } = view
  const due = money(schedule.today, offer.currency)
  const later = schedule.later.at(-1)
  const label = schedule.today > 0 ? words.pay(due) : offer.trial_end ? words.startTrial : offer.product?.recurring_interval ? words.subscribe : words.get
  return (
    <>
      <div id="terms">
        {/* The displayed price. If the price has changed, the new price is shown before payment. */}
        <input type="hidden" name="shown" value={view.shown} />
        {offer.product?.recurring_interval && later && (
          <p className="soft">
            {words.agree(`${money(later.amount, offer.currency)}${later.plus_tax ? words.plusTax : ''}`, intervalOf(frame, offer.product))}
          </p>
        )}
      </div>
      <div className="paying">
        <p id="total" className="total">
          <span>{words.dueToday}</span> <strong className="amount">{due}</strong>
        </p>
        {/* The script replaces only the text of the button, so that a click during the replacement is not lost. */}
        <button className="primary" formAction={`/checkout/${offer.id}/confirm`} data-whole="">
          <span id="price-to-pay">{label}</span>
        </button>
      </div>
    </>
  )
}
