import type { ReactNode } from 'react'
import { complaintAt, Field, Notice, speak, textsIn } from '../../kit/index.ts'
import { countryNames } from '../../kit/address/address.tsx'
import { intervalOf, pricesOf, priceWords, seatBounds, seatedIn, update, type Part } from './prices.ts'
import { texts } from './texts.ts'

/** The product, its price, and the choices that change the price. */
export const Summary = ({ view, frame }: Part) => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, schedule, draft } = view
  const product = offer.product
  if (!product) return null
  const choosing = offer.products.length > 1
  const [amount, what] = priceWords(frame, offer, product)
  return (
    <section id="summary" data-says={words.repriced(money(schedule.today, offer.currency))} aria-labelledby="what">
      <h1 id="what">{product.name}</h1>
      <p className="price">
        {amount} <span>{what}</span>
      </p>
      {product.description && <p className="soft">{product.description}</p>}
      {choosing && (
        <fieldset className="products">
          <legend>{words.choose}</legend>
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
        {words.update}
      </button>
      {offer.trial_end && offer.active_trial_interval && (
        <Notice>
          <p>{words.trial(words.span[offer.active_trial_interval](offer.active_trial_interval_count ?? 1), speak(frame).date(offer.trial_end))}</p>
        </Notice>
      )}
      <Breakdown view={view} frame={frame} />
      {offer.allow_discount_codes && offer.is_discount_applicable && !offer.discount && (
        <details open={Boolean(draft.discount_code)}>
          <summary>{words.addCode}</summary>
          <div className="beside">
            <Field
              name="discount_code"
              label={words.discountCode}
              value={draft.discount_code ?? ''}
              required={false}
              error={complaintAt(frame, view.complaints, 'discount_code')}
            />
            <button formNoValidate>{words.applyCode}</button>
          </div>
        </details>
      )}
      {product.benefits.length > 0 && (
        <div className="gets">
          <h2>{words.gets}</h2>
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
  const { money, number } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, draft, complaints } = view
  const price = seatedIn(offer)
  const bounds = seatBounds(offer)
  if (!price || !bounds) return null
  const { tiers, seat_tier_type } = price.seat_tiers
  const each = seat_tier_type === 'graduated' ? words.seatsFrom : words.seatsWhole
  const steps = tiers.slice(1).map(({ min_seats, price_per_seat }) => each(number(min_seats), money(price_per_seat, offer.currency)))
  const range = words.seatsBetween(number(bounds.least), bounds.most === null ? null : number(bounds.most))
  return (
    <Field
      name="seats"
      type="number"
      inputMode="numeric"
      label={words.seats}
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
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, draft, complaints } = view
  const price = pricesOf(offer, offer.product_id ?? '').find((one) => one.amount_type === 'custom')
  if (price?.amount_type !== 'custom') return null
  const least = money(price.minimum_amount, offer.currency)
  return (
    <Field
      name="amount"
      label={words.amount(offer.currency.toUpperCase())}
      hint={price.maximum_amount === null ? words.amountAtLeast(least) : words.amountBetween(least, money(price.maximum_amount, offer.currency))}
      value={draft.amount ?? ''}
      live={update}
      error={complaintAt(frame, complaints, 'amount')}
    />
  )
}

/** All lines of the price before payment: the amount that is due today, and the amounts that are due later. */
const Breakdown = ({ view, frame }: Part) => {
  const { money, date } = speak(frame)
  const words = textsIn(frame, texts)
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
      <Line name={offer.seats === null ? product.name : words.seatLine(product.name, offer.seats)}>{price(offer.amount)}</Line>
      {offer.discount && (
        <Line
          name={
            <>
              {words.discount} <span className="tag">{offer.discount.code ?? offer.discount.name}</span>{' '}
              <button className="quiet" name="without_discount" value="1" formNoValidate>
                {words.removeCode}
              </button>
            </>
          }
        >
          {price(-offer.discount_amount)}
        </Line>
      )}
      {offer.tax_amount === null ? (
        offer.is_payment_form_required && <Line name={words.tax}>{words.taxLater}</Line>
      ) : offer.tax_amount > 0 ? (
        <Line name={inclusive ? words.taxIncluded(place) : words.taxIn(place)}>{price(offer.tax_amount)}</Line>
      ) : null}
      <Line name={words.dueToday} strong>
        {price(schedule.today)}
      </Line>
      {schedule.later.map(({ from, amount, plus_tax }) => (
        <Line key={from.toISOString()} name={words.later}>
          {words.thenLine(price(amount), intervalOf(frame, product), date(from))}
          {plus_tax && words.plusTax}
        </Line>
      ))}
    </dl>
  )
}
