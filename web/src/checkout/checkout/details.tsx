import { Choice, complaintAt, Field, speak, textsIn } from '../../kit/index.ts'
import { AddressFields } from '../../kit/address/address.tsx'
import { update, type Part } from './prices.ts'
import { texts } from './texts.ts'

export const About = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, draft, complaints } = view
  return (
    <section aria-labelledby="about">
      <h2 id="about">{words.contact}</h2>
      {offer.customer_id === null ? (
        <Field
          name="customer_email"
          type="email"
          inputMode="email"
          autoComplete="email"
          label={words.email}
          hint={words.emailHint}
          value={draft.customer_email ?? ''}
          error={complaintAt(frame, complaints, 'customer_email')}
        />
      ) : (
        <p>{offer.customer_email}</p>
      )}
      <Field
        name="customer_name"
        autoComplete="name"
        required={false}
        label={`${words.name} (${t.optional})`}
        value={draft.customer_name ?? ''}
        error={complaintAt(frame, complaints, 'customer_name')}
      />
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
      />
    </section>
  )
}

export const Business = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const { draft, complaints } = view
  const wrong = ['customer_billing_name', 'customer_tax_id'].some((name) => complaintAt(frame, complaints, name))
  return (
    <details open={draft.is_business_customer === 'on' || wrong}>
      <summary>{words.business}</summary>
      <label className="choice">
        <input type="checkbox" name="is_business_customer" defaultChecked={draft.is_business_customer === 'on'} data-live={update} />
        <span>{words.isBusiness}</span>
      </label>
      <Field
        name="customer_billing_name"
        label={words.businessName}
        autoComplete="organization"
        required={false}
        value={draft.customer_billing_name ?? ''}
        error={complaintAt(frame, complaints, 'customer_billing_name')}
      />
      <Field
        name="customer_tax_id"
        label={`${words.taxId} (${t.optional})`}
        hint={words.taxIdHint}
        required={false}
        value={draft.customer_tax_id ?? ''}
        error={complaintAt(frame, complaints, 'customer_tax_id')}
      />
    </details>
  )
}

/** The seller's custom fields. */
export const Questions = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const asked = view.offer.attached_custom_fields ?? []
  if (asked.length === 0) return <section id="questions" />
  return (
    <section id="questions" aria-labelledby="more">
      <h2 id="more">{words.more}</h2>
      {asked.map(({ custom_field: field, required }) => {
        const name = `custom_field_data.${field.slug}`
        const value = view.draft[name] ?? ''
        const error = complaintAt(frame, view.complaints, 'custom_field_data', field.slug)
        const { form_label, form_help_text } = field.properties
        const label = `${form_label ?? field.name}${required ? '' : ` (${t.optional})`}`
        const shared = { name, label, error, required }
        const help = form_help_text === undefined ? {} : { hint: form_help_text }
        switch (field.type) {
          case 'checkbox':
            return (
              <div key={name} className="field">
                <label className="choice">
                  <input
                    type="checkbox"
                    id={name}
                    name={name}
                    defaultChecked={value === 'on'}
                    required={required}
                    aria-describedby={[form_help_text && `${name}-hint`, error && `${name}-error`].filter(Boolean).join(' ') || undefined}
                    aria-invalid={error ? true : undefined}
                  />
                  <span>{label}</span>
                </label>
                {form_help_text && (
                  <p id={`${name}-hint`} className="soft">
                    {form_help_text}
                  </p>
                )}
                {error && (
                  <p id={`${name}-error`} className="error">
                    {error}
                  </p>
                )}
              </div>
            )
          case 'select':
            return (
              <Choice key={name} {...shared} {...help} value={value}>
                <option value="">{t.pick}</option>
                {field.properties.options.map((one) => (
                  <option key={one.value} value={one.value}>
                    {one.label}
                  </option>
                ))}
              </Choice>
            )
          case 'number':
            return (
              <Field key={name} {...shared} {...help} value={value} type="number" inputMode="numeric" min={field.properties.ge} max={field.properties.le} />
            )
          case 'date':
            return <Field key={name} {...shared} {...help} value={value} type="date" />
          case 'text':
            return <Field key={name} {...shared} {...help} value={value} />
        }
      })}
    </section>
  )
}
