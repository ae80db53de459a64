import type { Complaint, Frame } from '@bursar/views'
import { Complaints, Document, Form, Notice, speak, textsIn } from '../../kit/index.ts'
import { Back } from '../back.tsx'
import { About, Address, Business, Questions } from './details.tsx'
import { Pay, Payment } from './payment.tsx'
import { seatBounds, update, type Part } from './prices.ts'
import { Summary } from './summary.tsx'
import { texts } from './texts.ts'

/** The checkout page: the price on one side, the form on the other, and nothing else. */
export const Checkout = ({ view: given, frame }: Part) => {
  const { wait } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, notice, publishable_key } = given
  const view = { ...given, complaints: worded(given, frame) }
  const title = words.title(offer.product?.name ?? words.summary)
  return (
    <Document
      frame={frame}
      title={title}
      seller={offer.organization.name}
      script
      scripts={publishable_key ? ['/assets/stripe.js'] : []}
      beside={<Back to={offer.return_url} frame={frame} />}
    >
      <Form
        frame={frame}
        action={`/checkout/${offer.id}/update`}
        className="checkout"
        swap="#wrong, #summary, #address, #questions, #paying-with, #terms, #total, #price-to-pay"
      >
        {/* The Enter key presses the first button of a form. This button only recalculates the price. */}
        <button id={update} className="hidden" tabIndex={-1} aria-hidden="true" formNoValidate>
          {words.update}
        </button>
        <div id="wrong">
          {given.declined !== null && (
            <div className="notice bad" role="alert">
              <p>
                {words.notPaid} <a href="#payment">{words.payment}</a>
              </p>
            </div>
          )}
          {given.wait_seconds !== null && (
            <div className="notice bad" role="alert">
              <p>{words.tooMany(wait(given.wait_seconds))}</p>
            </div>
          )}
          {notice && (
            <Notice kind="warn">
              <p>{words.notices[notice]}</p>
              {notice === 'subscribed' && <a href={`/${offer.organization.slug}/portal`}>{words.toPortal}</a>}
              {notice === 'trial_used' && (
                <button name="allow_trial" value="false" formNoValidate>
                  {words.noTrial}
                </button>
              )}
            </Notice>
          )}
          <Complaints frame={frame} complaints={view.complaints} />
        </div>
        <Summary view={view} frame={frame} />
        <div className="card filling">
          <About view={view} frame={frame} />
          <Address view={view} frame={frame} />
          <Business view={view} frame={frame} />
          <Questions view={view} frame={frame} />
          {/* The script keeps this element as long as data-keep is unchanged, because it contains the processor's form with the buyer's input. */}
          <div id="paying-with" data-keep={offer.is_payment_form_required ? (offer.is_payment_required ? 'payment' : 'setup') : 'nothing'}>
            {offer.is_payment_form_required && <Payment view={view} frame={frame} />}
          </div>
          <Pay view={view} frame={frame} />
        </div>
      </Form>
    </Document>
  )
}

/** Moves API errors to existing fields, and adds the allowed number of seats. */
const worded = ({ complaints, offer }: Part['view'], frame: Frame): Complaint[] => {
  const { t, number } = speak(frame)
  const words = textsIn(frame, texts)
  const places: Record<string, string[]> = { customer_billing_address: ['customer_billing_address', 'country'], discount_id: ['discount_code'] }
  return complaints.map((one) => {
    const path = one.loc.slice(1).join('.')
    const bounds = path === 'seats' ? seatBounds(offer) : undefined
    const loc = places[path] ? ['body', ...places[path]] : one.loc
    if (!bounds) return { ...one, loc }
    const range = words.seatsBetween(number(bounds.least), bounds.most === null ? null : number(bounds.most))
    return { loc, type: 'worded', msg: `${t.wrong.seats} ${range}.` }
  })
}
