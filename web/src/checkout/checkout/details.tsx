import { Field, speak, textsIn } from '../../kit/index.ts'
import { AddressFields } from '../../kit/address/address.tsx'
import { fieldAt, update, type Part } from './fields.ts'
import { texts } from './texts.ts'

export const About = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer } = view
  return (
    <section id="about-you" aria-labelledby="about">
      <h2 id="about">{words.contact}</h2>
      {offer.customer_id === null ? (
        <Field {...fieldAt({ view, frame }, 'customer_email')} type="email" inputMode="email" autoComplete="email" label={words.email} hint={words.emailHint} />
      ) : (
        <p>{offer.customer_email}</p>
      )}
      <Field {...fieldAt({ view, frame }, 'customer_name')} autoComplete="name" required={false} label={`${words.name} (${t.optional})`} />
    </section>
  )
}

export const Address = ({ view, frame }: Part) => {
  const words = textsIn(frame, texts)
  const { offer, draft, complaints } = view
  if (!offer.is_payment_form_required && offer.total_amount === 0 && !offer.is_business_customer) return <section id="address" />
  return (
    <section id="address" aria-labelledby="billing">
      <h2 id="billing">{words.billing}</h2>
      <AddressFields
        frame={frame}
        name="customer_billing_address"
        value={(part) => draft[`customer_billing_address.${part}`] ?? ''}
        complaints={complaints}
        modes={offer.billing_address_fields}
        required
        country={offer.customer_billing_address?.country ?? ''}
        live={update}
        focus={view.focus}
      />
    </section>
  )
}

/** The toggle for a business, and the fields that it shows. The stylesheet hides them while the box is not ticked. */
export const Business = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const box = fieldAt({ view, frame }, 'is_business_customer')
  return (
    <section id="business">
      <label className="choice">
        <input type="checkbox" id={box.name} name={box.name} defaultChecked={box.value === 'on'} autoFocus={box.autoFocus} data-live={update} />
        <span>{words.business}</span>
      </label>
      <div className="of-business">
        <Field {...fieldAt({ view, frame }, 'customer_billing_name')} label={words.businessName} autoComplete="organization" required={false} />
        <Field
          {...fieldAt({ view, frame }, 'customer_tax_id')}
          label={`${words.taxId} (${t.optional})`}
          hint={words.taxIdHint}
          required={false}
          live={update}
          late
        />
      </div>
    </section>
  )
}
