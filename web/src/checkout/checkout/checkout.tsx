import type { Complaint, Frame } from '@bursar/views'
import { Complaints, Countdown, Document, Form, lineOf, Notice, speak, textsIn } from '../../kit/index.ts'
import { addressLabels } from '../../kit/address/address.tsx'
import { Back } from '../back.tsx'
import { About, Address, Business } from './details.tsx'
import { focusOf, form, update, type Part } from './fields.ts'
import { Pay, Payment } from './payment.tsx'
import { seatBounds } from './prices.ts'
import { Questions } from './questions.tsx'
import { Summary } from './summary.tsx'
import { texts } from './texts.ts'

/** The checkout page: the price on one side, the form on the other, and nothing else. */
export const Checkout = ({ view: given, frame }: { view: Omit<Part['view'], 'focus'>; frame: Frame }) => {
  const words = textsIn(frame, texts)
  const { offer, notice, publishable_key } = given
  const complete = { ...given, complaints: worded(given, frame) }
  const view = { ...complete, focus: focusOf(complete) }
  const title = words.title(offer.product?.name ?? words.summary)
  return (
    <Document
      frame={frame}
      title={title}
      seller={offer.organization.name}
      script
      scripts={publishable_key ? ['/assets/stripe.js'] : []}
      beside={<Back to={offer.return_url} frame={frame} />}
      keeping={{ form, action: `/checkout/${offer.id}/preferences` }}
    >
      <Form
        frame={frame}
        id={form}
        action={`/checkout/${offer.id}/update`}
        className="checkout"
        swap="#wrong, #summary, #about-you, #address, #business, #questions, #paying-with, #terms, #total, #price-to-pay"
        first={view.guessed ? update : undefined}
        draft={`/checkout/${offer.id}/draft`}
      >
        {/* The Enter key presses the first button of a form. So this button does what the visible button does. */}
        <button className="hidden" formAction={`/checkout/${offer.id}/confirm`} data-whole="" tabIndex={-1} aria-hidden="true">
          {words.order.paid}
        </button>
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
            <div role="alert">
              <Countdown frame={frame} seconds={given.wait_seconds} text={words.tooMany} kind="bad" then={update} />
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
          <Complaints frame={frame} complaints={view.complaints} labels={labelsOf(view.offer, frame)} />
        </div>
        <Summary view={view} frame={frame} />
        <div className="card filling">
          <About view={view} frame={frame} />
          <Address view={view} frame={frame} />
          <Business view={view} frame={frame} />
          <Questions view={view} frame={frame} />
          {/* The script keeps this element as long as data-keep is unchanged, because it contains the processor's form with the buyer's input. */}
          <div id="paying-with" data-keep={offer.is_payment_form_required ? `${offer.is_payment_required ? 'payment' : 'setup'} ${view.methods}` : 'nothing'}>
            {offer.is_payment_form_required && <Payment view={view} frame={frame} />}
          </div>
          <Pay view={view} frame={frame} />
        </div>
      </Form>
    </Document>
  )
}

/** Returns the labels of the fields that the errors above the form name. */
const labelsOf = (offer: Part['view']['offer'], frame: Frame): Record<string, string> => {
  const words = textsIn(frame, texts)
  const asked = offer.attached_custom_fields ?? []
  return {
    customer_email: words.email,
    customer_billing_name: words.businessName,
    customer_tax_id: words.taxId,
    discount_code: words.discountCode,
    ...Object.fromEntries(Object.entries(addressLabels(frame)).map(([part, label]) => [`customer_billing_address.${part}`, label])),
    ...Object.fromEntries(asked.map(({ custom_field: { slug, name, properties } }) => [`custom_field_data.${slug}`, lineOf(properties.form_label ?? name)])),
  }
}

/** Moves API errors to existing fields, adds the allowed number of seats, and says what to do with a box. */
const worded = ({ complaints, offer }: Pick<Part['view'], 'complaints' | 'offer'>, frame: Frame): Complaint[] => {
  const { t, number } = speak(frame)
  const words = textsIn(frame, texts)
  const places: Record<string, string[]> = { customer_billing_address: ['customer_billing_address', 'country'], discount_id: ['discount_code'] }
  return complaints.map((one) => {
    const path = one.loc.slice(1).join('.')
    const isBox = (offer.attached_custom_fields ?? []).some(({ custom_field: { type, slug } }) => type === 'checkbox' && path === `custom_field_data.${slug}`)
    if (isBox) return { loc: one.loc, type: 'worded', msg: words.tick }
    const bounds = path === 'seats' ? seatBounds(offer) : undefined
    const loc = places[path] ? ['body', ...places[path]] : one.loc
    if (!bounds) return { ...one, loc }
    const range = words.seatsBetween(number(bounds.least), bounds.most === null ? null : number(bounds.most))
    return { loc, type: 'worded', msg: `${t.wrong.seats} ${range}.` }
  })
}
