import type { ReactNode } from 'react'
import { Choice, Field, Markdown, Notice, speak, textsIn } from '../../kit/index.ts'
import { countryNames } from '../../kit/address/address.tsx'
import { apply, fieldAt, update, withoutDiscount, type Part } from './fields.ts'
import { discountWords, intervalOf, orderedName, priceLine, pricesOf, priceWords, seatBounds, seatedIn, taxNote, usageOf } from './prices.ts'
import { texts } from './texts.ts'

/** The product, its price, and the choices that change the price. */
export const Summary = ({ view, frame }: Part) => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, schedule } = view
  const code = fieldAt({ view, frame }, 'discount_code')
  const product = offer.product
  if (!product) return null
  const choosing = offer.products.length > 1
  const { amount, what, usage } = priceWords(frame, offer, product)
  return (
    <section id="summary" data-says={words.repriced(money(schedule.today, offer.currency))} aria-labelledby="what">
      <Pictures medias={product.medias} />
      <h1 id="what">{product.name}</h1>
      {amount !== '' && (
        <p className="price">
          {amount} <span>{what}</span>
        </p>
      )}
      {usage.map((cost) => (
        <p key={cost}>{amount === '' ? cost : `+ ${cost}`}</p>
      ))}
      {product.description && <Markdown source={product.description} className="soft" />}
      {choosing && (
        <fieldset className="products">
          <legend>{words.choose}</legend>
          {offer.products.map((one) => (
            <label key={one.id} className="choice">
              <input type="radio" name="product_id" value={one.id} defaultChecked={one.id === offer.product_id} data-live={update} />
              <span>
                {one.name} <span className="soft">{priceLine(frame, offer, one)}</span>
              </span>
            </label>
          ))}
        </fieldset>
      )}
      <Currencies view={view} frame={frame} />
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
        <details open={code.value !== ''}>
          <summary>{words.addCode}</summary>
          <div className="beside">
            <Field {...code} label={words.discountCode} required={false} enter={apply} />
            <button id={apply} formNoValidate>
              {words.applyCode}
            </button>
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

/** The pictures of the product: the first one large, up to four more below it. The text describes the product, so they need no text of their own. */
const Pictures = ({ medias }: { medias: readonly { readonly id: string; readonly public_url: string }[] }) => {
  const [cover, ...others] = medias
  if (!cover) return null
  return (
    <>
      <img className="cover" src={cover.public_url} alt="" width={640} height={400} />
      {others.length > 0 && (
        <div className="media">
          {others.slice(0, 4).map(({ id, public_url }) => (
            <img key={id} className="thumb" src={public_url} alt="" width={72} height={45} />
          ))}
        </div>
      )}
    </>
  )
}

/** The choice of currency, if the product has prices in several. */
const Currencies = ({ view, frame }: Part) => {
  const words = textsIn(frame, texts)
  const { offer } = view
  const names = new Intl.DisplayNames(frame.locale, { type: 'currency' })
  const currencies = [...new Set((offer.prices?.[offer.product_id ?? ''] ?? []).map(({ price_currency }) => price_currency))]
  if (currencies.length < 2) return null
  return (
    <Choice {...fieldAt({ view, frame }, 'currency')} value={offer.currency} label={words.currency} live={update}>
      {currencies.map((code) => (
        <option key={code} value={code}>
          {`${names.of(code.toUpperCase()) ?? ''} (${code.toUpperCase()})`}
        </option>
      ))}
    </Choice>
  )
}

const Seats = ({ view, frame }: Part) => {
  const { money, number } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer } = view
  const price = seatedIn(offer)
  const bounds = seatBounds(offer)
  if (!price || !bounds) return null
  const { tiers, seat_tier_type } = price.seat_tiers
  const each = seat_tier_type === 'graduated' ? words.seatsFrom : words.seatsWhole
  const steps = tiers.slice(1).map(({ min_seats, price_per_seat }) => each(number(min_seats), money(price_per_seat, offer.currency)))
  const range = words.seatsBetween(number(bounds.least), bounds.most === null ? null : number(bounds.most))
  return (
    <Field
      {...fieldAt({ view, frame }, 'seats')}
      type="number"
      inputMode="numeric"
      label={words.seats}
      hint={[range, ...steps].join(' · ')}
      min={bounds.least}
      max={bounds.most ?? undefined}
      live={update}
    />
  )
}

const Amount = ({ view, frame }: Part) => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer } = view
  const price = pricesOf(offer, offer.product_id ?? '').find((one) => one.amount_type === 'custom')
  if (price?.amount_type !== 'custom') return null
  const least = money(price.minimum_amount, offer.currency)
  return (
    <Field
      {...fieldAt({ view, frame }, 'amount')}
      label={words.amount(offer.currency.toUpperCase())}
      hint={price.maximum_amount === null ? words.amountAtLeast(least) : words.amountBetween(least, money(price.maximum_amount, offer.currency))}
      live={update}
    />
  )
}

/** Returns the reason why there is no tax, if the buyer needs to know it. */
const untaxed = (reason: Part['view']['offer']['tax_reason']): 'reverse_charge' | 'customer_exempt' | 'product_exempt' | null =>
  reason === 'reverse_charge' || reason === 'customer_exempt' || reason === 'product_exempt' ? reason : null

/** All lines of the price before payment: the amount that is due today, and the amounts that are due later. */
const Breakdown = ({ view, frame }: Part) => {
  const { money, date } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, schedule } = view
  const product = offer.product!
  const price = (amount: number) => money(amount, offer.currency)
  const country = offer.customer_billing_address?.country
  const place = country ? (countryNames(frame).of(country) ?? country) : ''
  const reason = offer.is_payment_form_required ? untaxed(offer.tax_reason) : null
  const inclusive = offer.tax_behavior === 'inclusive'
  // The part of the total that is not due today. The lines above the amount due then add up to it.
  const free = schedule.today - offer.total_amount
  const Line = ({ name, children, kind }: { name: ReactNode; children: ReactNode; kind?: 'due' | 'within' | undefined }) => (
    <div className={kind}>
      <dt>{name}</dt>
      <dd className="amount">{children}</dd>
    </div>
  )
  return (
    <dl className="bill">
      <Line name={orderedName(frame, offer, product)}>{price(offer.amount)}</Line>
      {offer.discount && (
        <Line
          name={
            <>
              {words.discount} <span className="tag">{offer.discount.code ?? offer.discount.name}</span>{' '}
              <span className="soft">{discountWords(frame, offer)}</span>{' '}
              <button id={withoutDiscount} className="quiet" name={withoutDiscount} value="1" autoFocus={view.focus === withoutDiscount} formNoValidate>
                {words.removeCode}
              </button>
            </>
          }
        >
          {price(-offer.discount_amount)}
        </Line>
      )}
      {offer.tax_amount === null ? (
        offer.is_payment_form_required && <Line name={words.tax}>{view.guessed ? words.taxSoon : words.taxLater}</Line>
      ) : offer.tax_amount > 0 ? (
        <Line name={inclusive ? words.taxIncluded(place) : words.taxAdded(place)} kind={inclusive ? 'within' : undefined}>
          {price(offer.tax_amount)}
        </Line>
      ) : (
        reason && <Line name={words.taxReasons[reason]}>{price(0)}</Line>
      )}
      {free < 0 && <Line name={offer.trial_end === null ? words.tooSmall : words.freeTrial}>{price(free)}</Line>}
      <Line name={words.dueToday} kind="due">
        {price(schedule.today)}
      </Line>
      {schedule.later.map(({ from, amount, plus_tax }) => (
        <Line key={from.toISOString()} name={words.later}>
          {words.thenLine(price(amount), intervalOf(frame, product), date(from))}
          {plus_tax && taxNote(frame, offer)}
        </Line>
      ))}
      {usageOf(frame, offer, product).map(({ id, meter, price: cost }) => (
        <Line key={id} name={meter}>
          {cost}
        </Line>
      ))}
    </dl>
  )
}
