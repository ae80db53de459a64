import type { Frame, PortalSubscription, View } from '@bursar/views'
import { complaintAt, Confirm, Field, Form, speak, textsIn } from '../../kit/index.ts'
import { AddressFields } from '../../kit/address/address.tsx'
import { ProcessorForm } from '../../kit/processor/processor.tsx'
import { cap, methodName } from '../methods.ts'
import { Portal } from '../shell.tsx'
import { portalTexts } from '../texts.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<View, { kind: 'portal-billing' }>; frame: Frame }

/** The billing page: billing details and payment methods. With a task link, only the payment methods. */
export const Billing = ({ view, frame }: Props) => {
  const { shell } = view
  const words = textsIn(frame, texts)
  const single = shell.flow !== null
  return (
    <Portal frame={frame} shell={shell} section="billing" title={single ? words.flow : words.title} scripts={view.form ? ['/assets/stripe.js'] : []}>
      <h1>{single ? words.flow : words.title}</h1>
      {!single && <Details view={view} frame={frame} />}
      <Methods view={view} frame={frame} />
    </Portal>
  )
}

const Details = ({ view, frame }: Props) => {
  const { shell, customer, draft } = view
  const words = textsIn(frame, texts)
  const { billing_address: address } = customer
  const value = (part: keyof NonNullable<typeof address>) => draft?.[`billing_address.${part}`] ?? address?.[part] ?? ''
  return (
    <section className="card details" aria-labelledby="details">
      <h2 id="details">{words.details}</h2>
      <Form frame={frame} action={`/${shell.seller.slug}/portal/billing`} swap="#address">
        <Field
          name="billing_name"
          label={words.name}
          value={draft?.billing_name ?? customer.billing_name ?? ''}
          autoComplete="organization"
          required={false}
          error={complaintAt(frame, shell.complaints, 'billing_name')}
        />
        <div id="address">
          <AddressFields
            frame={frame}
            name="billing_address"
            value={value}
            complaints={shell.complaints}
            modes={{ line1: 'optional', line2: 'optional', postal_code: 'optional', city: 'optional', state: 'optional' }}
            required={false}
            country={value('country')}
            live="states"
          />
        </div>
        <Field
          name="tax_id"
          label={words.taxId}
          hint={words.taxIdHint}
          value={draft?.tax_id ?? customer.tax_id?.[0] ?? ''}
          required={false}
          error={complaintAt(frame, shell.complaints, 'tax_id')}
        />
        <button className="primary" data-whole="">
          {words.save}
        </button>
        {/* Reloads the address fields after a change of the country, because the new country may have a list of states. */}
        <button id="states" className="without-script" name="do" value="address" formNoValidate>
          {words.states}
        </button>
      </Form>
    </section>
  )
}

const Methods = ({ view, frame }: Props) => {
  const { t } = speak(frame)
  const shared = textsIn(frame, portalTexts)
  const words = textsIn(frame, texts)
  const { shell, customer, methods } = view
  return (
    <section className="card" aria-labelledby="methods">
      <h2 id="methods">{words.methods}</h2>
      {methods.length === 0 && <p className="soft">{words.noMethods}</p>}
      <ul className="rows">
        {methods.map((method) => {
          const usual = method.id === customer.default_payment_method_id || methods.length === 1
          return (
            <li key={method.id}>
              <div>
                <strong>{methodName(frame, method)}</strong> {usual && <span className="tag">{words.default}</span>}
                <p className="soft facts">
                  {'method_metadata' in method && <span>{words.expires(method.method_metadata.exp_month, method.method_metadata.exp_year)}</span>}
                  <span>{usedBy(frame, usual, view.subscriptions)}</span>
                </p>
              </div>
              {!usual && (
                <Form frame={frame} action={`/${shell.seller.slug}/portal/billing`}>
                  <input type="hidden" name="do" value="default" />
                  {shell.flow !== null && <input type="hidden" name="flow" value={shell.flow} />}
                  <input type="hidden" name="payment_method_id" value={method.id} />
                  <button>
                    {words.makeDefault} <span className="hidden">{methodName(frame, method)}</span>
                  </button>
                </Form>
              )}
              <Confirm label={words.remove(methodName(frame, method))} consequence={words.removeConsequence}>
                <Form frame={frame} action={`/${shell.seller.slug}/portal/billing`}>
                  <input type="hidden" name="do" value="remove" />
                  {shell.flow !== null && <input type="hidden" name="flow" value={shell.flow} />}
                  <input type="hidden" name="payment_method_id" value={method.id} />
                  <button className="danger">{words.removeConfirm}</button>
                </Form>
              </Confirm>
            </li>
          )
        })}
      </ul>
      {(view.cards || view.form) && (
        <Form frame={frame} action={`/${shell.seller.slug}/portal/billing`} label={words.add}>
          <input type="hidden" name="do" value="add" />
          {shell.flow !== null && <input type="hidden" name="flow" value={shell.flow} />}
          {view.form && (
            <ProcessorForm frame={frame} form={{ ...view.form, reusable: true }} error={complaintAt(frame, shell.complaints, 'confirmation_token_id')} />
          )}
          {view.cards && (
            <div className="field">
              <label htmlFor="confirmation_token_id">{words.newCard}</label>
              <select id="confirmation_token_id" name="confirmation_token_id">
                {view.cards.map(({ token, brand, last4, says }) => (
                  <option key={token} value={token}>
                    {`${shared.card(cap(brand ?? ''), last4 ?? '')}: ${t.cards[token] ?? says}`}
                  </option>
                ))}
              </select>
            </div>
          )}
          <p>
            <label className="choice">
              <input type="checkbox" name="set_default" defaultChecked /> {words.addDefault}
            </label>
          </p>
          <button data-whole="">{words.add}</button>
        </Form>
      )}
    </section>
  )
}

const usedBy = (frame: Frame, usual: boolean, subscriptions: readonly PortalSubscription[]): string => {
  const words = textsIn(frame, texts)
  return usual && subscriptions.length > 0
    ? words.usedBy(new Intl.ListFormat(frame.locale).format([...new Set(subscriptions.map(({ product }) => product.name))]))
    : words.unused
}
