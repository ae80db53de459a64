import { exponentsOf, type Complaint, type Frame, type Offer, type View } from '@bursar/contract'
import type { ReactNode } from 'react'
import { Choice, complaintAt, Complaints, Document, Field, Form, Notice, refusedBy, speak } from '../kit.tsx'
import { AddressFields, countryNames } from './address.tsx'
import { ProcessorForm } from './processor.tsx'

type Props = Extract<View, { kind: 'checkout' }>
interface Part {
  readonly view: Props
  readonly frame: Frame
}
type Product = NonNullable<Offer['product']>
type Price = Product['prices'][number]

/** The button that computes the price anew; whatever changes it presses this one. */
const update = 'update'

/** Where a buyer pays: what it costs on one side, what has to be filled in on the other, and nothing else. */
export const Checkout = ({ view: given, frame }: Part) => {
  const { t } = speak(frame)
  const { offer, notice, publishable_key } = given
  const view = { ...given, complaints: worded(given, frame) }
  const title = t.checkout.title(offer.product?.name ?? t.checkout.summary)
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
        {/* The first button is the one that Enter presses: it computes the price, and decides nothing. */}
        <button id={update} className="hidden" tabIndex={-1} aria-hidden="true" formNoValidate>
          {t.checkout.update}
        </button>
        <div id="wrong">
          {given.declined !== null && (
            <div className="notice bad" role="alert">
              <p>
                {t.checkout.notPaid} <a href="#payment">{t.checkout.payment}</a>
              </p>
            </div>
          )}
          {notice && (
            <Notice kind="warn">
              <p>{t.checkout.notices[notice]}</p>
              {notice === 'subscribed' && <a href={`/${offer.organization.slug}/portal`}>{t.checkout.toPortal}</a>}
              {notice === 'trial_used' && (
                <button name="allow_trial" value="false" formNoValidate>
                  {t.checkout.noTrial}
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
          {/* Kept as it is while it asks for the same: what was typed into it is not ours. */}
          <div id="paying-with" data-keep={offer.is_payment_form_required ? (offer.is_payment_required ? 'payment' : 'setup') : 'nothing'}>
            {offer.is_payment_form_required && <Payment view={view} frame={frame} />}
          </div>
          <Pay view={view} frame={frame} />
        </div>
      </Form>
    </Document>
  )
}

export const Back = ({ to, frame }: { to: string | null; frame: Frame }) =>
  to === null ? null : (
    <a className="back" href={to}>
      {speak(frame).t.checkout.backTo}
    </a>
  )

/** What the API complained about, at a field that is there; how many seats there are to buy is said with it. */
const worded = ({ complaints, offer }: Props, frame: Frame): Complaint[] => {
  const { t, number } = speak(frame)
  const places: Record<string, string[]> = { customer_billing_address: ['customer_billing_address', 'country'], discount_id: ['discount_code'] }
  return complaints.map((one) => {
    const path = one.loc.slice(1).join('.')
    const bounds = path === 'seats' ? seatBounds(offer) : undefined
    const loc = places[path] ? ['body', ...places[path]] : one.loc
    if (!bounds) return { ...one, loc }
    const range = t.checkout.seatsBetween(number(bounds.least), bounds.most === null ? null : number(bounds.most))
    return { loc, type: 'worded', msg: `${t.wrong.seats} ${range}.` }
  })
}

const pricesOf = (offer: Offer, product_id: string): Price[] => (offer.prices?.[product_id] ?? []).filter((price) => price.price_currency === offer.currency)

type Seated = Extract<Price, { amount_type: 'seat_based' }>
const seatedIn = (offer: Offer): Seated | undefined =>
  pricesOf(offer, offer.product_id ?? '').find((price): price is Seated => price.amount_type === 'seat_based')

const seatBounds = (offer: Offer): { least: number; most: number | null } | undefined => {
  const price = seatedIn(offer)
  if (!price) return undefined
  const { tiers } = price.seat_tiers
  const last = tiers.at(-1)?.max_seats ?? null
  const most = offer.max_seats === null ? last : Math.min(last ?? Infinity, offer.max_seats)
  return { least: Math.max(tiers[0]?.min_seats ?? 1, offer.min_seats ?? 1), most }
}

const intervalOf = (frame: Frame, product: Product): string => {
  const { t } = speak(frame)
  return product.recurring_interval ? t.per[product.recurring_interval](product.recurring_interval_count ?? 1) : ''
}

/** What a product costs, in a few words: the amount, and what for. */
const priceWords = (frame: Frame, offer: Offer, product: Product): [string, string] => {
  const { t, money } = speak(frame)
  const words = pricesOf(offer, product.id).map((price): [string, string] => {
    switch (price.amount_type) {
      case 'fixed':
        return [price.price_amount === 0 ? t.checkout.free : money(price.price_amount, price.price_currency), '']
      case 'custom':
        return [t.checkout.yourPrice, '']
      case 'seat_based':
        return [money(price.seat_tiers.tiers[0]?.price_per_seat ?? 0, price.price_currency), t.checkout.perSeat]
      case 'metered_unit':
        return [smallMoney(frame, price.unit_amount, price.price_currency), t.checkout.perUnit(price.meter.custom_label ?? price.meter.name)]
    }
  })
  const [[amount, what] = ['', ''], ...others] = words
  const more = others.map((one) => `+ ${one.join(' ')}`)
  return [amount, [what, intervalOf(frame, product), ...more].filter(Boolean).join(' ')]
}

/** A unit may cost less than the smallest coin. */
const smallMoney = ({ locale }: Frame, minor: string, currency: string): string =>
  new Intl.NumberFormat(locale, { style: 'currency', currency, maximumFractionDigits: 12 }).format(Number(minor) / 10 ** exponentsOf(currency).wire)

const Summary = ({ view, frame }: Part) => {
  const { t, money } = speak(frame)
  const { offer, schedule, draft } = view
  const product = offer.product
  if (!product) return null
  const metered = pricesOf(offer, product.id).some(({ amount_type }) => amount_type === 'metered_unit')
  const choosing = offer.products.length > 1
  const [amount, what] = priceWords(frame, offer, product)
  return (
    <section id="summary" data-says={t.checkout.repriced(money(schedule.today, offer.currency))} aria-labelledby="what">
      <h1 id="what">{product.name}</h1>
      <p className="price">
        {amount} <span>{what}</span>
      </p>
      {product.description && <p className="soft">{product.description}</p>}
      {choosing && (
        <fieldset className="products">
          <legend>{t.checkout.choose}</legend>
          {offer.products.map((one) => (
            <label key={one.id} className="choice">
              <input type="radio" name="product_id" value={one.id} defaultChecked={one.id === offer.product_id} data-live={update} />
              <span>
                {one.name} <span className="soft">{priceWords(frame, offer, one).join(' ')}</span>
              </span>
            </label>
          ))}
        </fieldset>
      )}
      <Seats view={view} frame={frame} />
      <Amount view={view} frame={frame} />
      <button className="without-script" formNoValidate>
        {t.checkout.update}
      </button>
      {offer.trial_end && offer.active_trial_interval && (
        <Notice>
          <p>{t.checkout.trial(t.checkout.span[offer.active_trial_interval](offer.active_trial_interval_count ?? 1), speak(frame).date(offer.trial_end))}</p>
        </Notice>
      )}
      <Breakdown view={view} frame={frame} />
      {metered && <p className="soft">{t.checkout.usage}</p>}
      {offer.allow_discount_codes && offer.is_discount_applicable && !offer.discount && (
        <details open={Boolean(draft.discount_code)}>
          <summary>{t.checkout.addCode}</summary>
          <div className="beside">
            <Field
              name="discount_code"
              label={t.checkout.discountCode}
              value={draft.discount_code ?? ''}
              required={false}
              error={complaintAt(frame, view.complaints, 'discount_code')}
            />
            <button formNoValidate>{t.checkout.applyCode}</button>
          </div>
        </details>
      )}
      {product.benefits.length > 0 && (
        <div className="gets">
          <h2>{t.checkout.gets}</h2>
          <ul>
            {product.benefits.map(({ id, description }) => (
              <li key={id}>{description}</li>
            ))}
          </ul>
        </div>
      )}
    </section>
  )
}

const Seats = ({ view, frame }: Part) => {
  const { t, money, number } = speak(frame)
  const { offer, draft, complaints } = view
  const price = seatedIn(offer)
  const bounds = seatBounds(offer)
  if (!price || !bounds) return null
  const { tiers, seat_tier_type } = price.seat_tiers
  const each = seat_tier_type === 'graduated' ? t.checkout.seatsFrom : t.checkout.seatsWhole
  const steps = tiers.slice(1).map(({ min_seats, price_per_seat }) => each(number(min_seats), money(price_per_seat, offer.currency)))
  const range = t.checkout.seatsBetween(number(bounds.least), bounds.most === null ? null : number(bounds.most))
  return (
    <Field
      name="seats"
      type="number"
      inputMode="numeric"
      label={t.checkout.seats}
      hint={[range, ...steps].join(' · ')}
      value={draft.seats ?? ''}
      min={bounds.least}
      max={bounds.most ?? undefined}
      live={update}
      error={complaintAt(frame, complaints, 'seats')}
    />
  )
}

const Amount = ({ view, frame }: Part) => {
  const { t, money } = speak(frame)
  const { offer, draft, complaints } = view
  const price = pricesOf(offer, offer.product_id ?? '').find((one) => one.amount_type === 'custom')
  if (price?.amount_type !== 'custom') return null
  const least = money(price.minimum_amount, offer.currency)
  return (
    <Field
      name="amount"
      label={t.checkout.amount(offer.currency.toUpperCase())}
      hint={price.maximum_amount === null ? t.checkout.amountAtLeast(least) : t.checkout.amountBetween(least, money(price.maximum_amount, offer.currency))}
      value={draft.amount ?? ''}
      live={update}
      error={complaintAt(frame, complaints, 'amount')}
    />
  )
}

/** Every line of the price: what is due today, and what then, before anybody pays. */
const Breakdown = ({ view, frame }: Part) => {
  const { t, money, date } = speak(frame)
  const { offer, schedule } = view
  const product = offer.product!
  const price = (amount: number) => money(amount, offer.currency)
  const country = offer.customer_billing_address?.country
  const place = country ? (countryNames(frame).of(country) ?? country) : ''
  const inclusive = offer.tax_behavior === 'inclusive'
  const Line = ({ name, children, strong = false }: { name: ReactNode; children: ReactNode; strong?: boolean }) => (
    <div className={strong ? 'due' : undefined}>
      <dt>{name}</dt>
      <dd className="amount">{children}</dd>
    </div>
  )
  return (
    <dl className="bill">
      <Line name={offer.seats === null ? product.name : t.checkout.seatLine(product.name, offer.seats)}>{price(offer.amount)}</Line>
      {offer.discount && (
        <Line
          name={
            <>
              {t.checkout.discount} <span className="tag">{offer.discount.code ?? offer.discount.name}</span>{' '}
              <button className="quiet" name="without_discount" value="1" formNoValidate>
                {t.checkout.removeCode}
              </button>
            </>
          }
        >
          {price(-offer.discount_amount)}
        </Line>
      )}
      {offer.tax_amount === null ? (
        offer.is_payment_form_required && <Line name={t.checkout.tax}>{t.checkout.taxLater}</Line>
      ) : offer.tax_amount > 0 ? (
        <Line name={inclusive ? t.checkout.taxIncluded(place) : t.checkout.taxIn(place)}>{price(offer.tax_amount)}</Line>
      ) : null}
      <Line name={t.checkout.dueToday} strong>
        {price(schedule.today)}
      </Line>
      {schedule.later.map(({ from, amount, plus_tax }) => (
        <Line key={from.toISOString()} name={t.checkout.later}>
          {t.checkout.thenLine(price(amount), intervalOf(frame, product), date(from))}
          {plus_tax && t.checkout.plusTax}
        </Line>
      ))}
    </dl>
  )
}

const About = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const { offer, draft, complaints } = view
  return (
    <section aria-labelledby="about">
      <h2 id="about">{t.checkout.contact}</h2>
      {offer.customer_id === null ? (
        <Field
          name="customer_email"
          type="email"
          inputMode="email"
          autoComplete="email"
          label={t.checkout.email}
          hint={t.checkout.emailHint}
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
        label={`${t.checkout.name} (${t.checkout.optional})`}
        value={draft.customer_name ?? ''}
        error={complaintAt(frame, complaints, 'customer_name')}
      />
    </section>
  )
}

const Address = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const { offer, draft, complaints } = view
  if (!offer.is_payment_form_required && offer.total_amount === 0 && !offer.is_business_customer) return <section id="address" />
  return (
    <section id="address" aria-labelledby="billing">
      <h2 id="billing">{t.checkout.billing}</h2>
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

const Business = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const { draft, complaints } = view
  const wrong = ['customer_billing_name', 'customer_tax_id'].some((name) => complaintAt(frame, complaints, name))
  return (
    <details open={draft.is_business_customer === 'on' || wrong}>
      <summary>{t.checkout.business}</summary>
      <label className="choice">
        <input type="checkbox" name="is_business_customer" defaultChecked={draft.is_business_customer === 'on'} data-live={update} />
        <span>{t.checkout.isBusiness}</span>
      </label>
      <Field
        name="customer_billing_name"
        label={t.checkout.businessName}
        autoComplete="organization"
        required={false}
        value={draft.customer_billing_name ?? ''}
        error={complaintAt(frame, complaints, 'customer_billing_name')}
      />
      <Field
        name="customer_tax_id"
        label={`${t.checkout.taxId} (${t.checkout.optional})`}
        hint={t.checkout.taxIdHint}
        required={false}
        value={draft.customer_tax_id ?? ''}
        error={complaintAt(frame, complaints, 'customer_tax_id')}
      />
    </details>
  )
}

/** What the seller asks besides. */
const Questions = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const asked = view.offer.attached_custom_fields ?? []
  if (asked.length === 0) return <section id="questions" />
  return (
    <section id="questions" aria-labelledby="more">
      <h2 id="more">{t.checkout.more}</h2>
      {asked.map(({ custom_field: field, required }) => {
        const name = `custom_field_data.${field.slug}`
        const value = view.draft[name] ?? ''
        const error = complaintAt(frame, view.complaints, 'custom_field_data', field.slug)
        const { form_label, form_help_text } = field.properties
        const label = `${form_label ?? field.name}${required ? '' : ` (${t.checkout.optional})`}`
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
                <option value="">{t.checkout.pick}</option>
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

/** The card: one of the sandbox's, or what the processor's own form takes. */
const Payment = ({ view, frame }: Part) => {
  const { t } = speak(frame)
  const { offer, cards, publishable_key, declined, draft, complaints } = view
  const error = declined === null ? complaintAt(frame, complaints, 'confirmation_token_id') : `${refusedBy(frame, declined)} ${t.checkout.tryOther}`
  return (
    <section aria-labelledby="payment">
      <h2 id="payment">{t.checkout.payment}</h2>
      {cards && (
        <Choice
          name="confirmation_token_id"
          label={t.checkout.card}
          hint={t.checkout.cardHint}
          value={draft.confirmation_token_id ?? cards[0]?.token ?? ''}
          error={error}
        >
          {cards.map(({ token, type, brand, last4, says }) => (
            <option key={token} value={token}>
              {`${type === 'card' ? cap(brand ?? '') : t.checkout.debit} ···· ${last4}: ${t.checkout.cards[token] ?? says}`}
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

const Pay = ({ view, frame }: Part) => {
  const { t, money } = speak(frame)
  const { offer, schedule } = view
  const due = money(schedule.today, offer.currency)
  const later = schedule.later.at(-1)
  const label =
    schedule.today > 0
      ? t.checkout.pay(due)
      : offer.trial_end
        ? t.checkout.startTrial
        : offer.product?.recurring_interval
          ? t.checkout.subscribe
          : t.checkout.get
  return (
    <>
      <div id="terms">
        {/* What is paid is what was shown: another amount is shown first. */}
        <input type="hidden" name="shown" value={view.shown} />
        {offer.product?.recurring_interval && later && (
          <p className="soft">
            {t.checkout.agree(`${money(later.amount, offer.currency)}${later.plus_tax ? t.checkout.plusTax : ''}`, intervalOf(frame, offer.product))}
          </p>
        )}
      </div>
      <div className="paying">
        <p id="total" className="total">
          <span>{t.checkout.dueToday}</span> <strong className="amount">{due}</strong>
        </p>
        {/* The button stays where it is while its words change: a press that has begun is not lost. */}
        <button className="primary" formAction={`/checkout/${offer.id}/confirm`} data-whole="">
          <span id="price-to-pay">{label}</span>
        </button>
      </div>
    </>
  )
}
