import type { Frame, PortalUsage, PortalUsageCharge, PortalUsageMeter, View } from '@bursar/views'
import { speak, Status, textsIn, unitPrice, usagePrice } from '../../kit/index.ts'
import { Portal } from '../shell.tsx'
import { dayIn, momentIn, numbersIn } from './formats.ts'
import { Plot } from './plot.tsx'
import { texts } from './texts.ts'

type Props = { view: Extract<View, { kind: 'portal-usage' }>; frame: Frame }

/** The usage of each meter: against the included amount, its cost, and the last days. */
export const Usage = ({ view, frame }: Props) => {
  const words = textsIn(frame, texts)
  const { shell, usage } = view
  const base = `/${shell.seller.slug}/portal`
  return (
    <Portal frame={frame} shell={shell} section="usage" title={words.title}>
      <h1>{words.title}</h1>
      <p className="soft">
        {words.upTo(momentIn(frame, usage.timezone)(usage.at))} {words.zone(usage.timezone)}
      </p>
      {usage.meters.length === 0 && <p className="empty">{words.none}</p>}
      {usage.meters.map((meter) => (
        <MeterCard key={meter.id} frame={frame} base={base} usage={usage} meter={meter} />
      ))}
      {view.single && (
        <p>
          <a href={`${base}/usage`}>{words.all}</a>
        </p>
      )}
    </Portal>
  )
}

interface MeterProps {
  readonly frame: Frame
  readonly usage: PortalUsage
  readonly meter: PortalUsageMeter
}

const isCapped = ({ cap_amount, amount, is_trial }: PortalUsageCharge): boolean => cap_amount !== null && amount >= cap_amount && !is_trial

const MeterCard = ({ frame, base, usage, meter }: MeterProps & { base: string }) => {
  const words = textsIn(frame, texts)
  const day = dayIn(frame, usage.timezone)
  return (
    <section className="card usage" aria-labelledby={`meter-${meter.id}`}>
      <div className="heading">
        <h2 id={`meter-${meter.id}`}>{meter.name}</h2>
        <MeterStatus frame={frame} meter={meter} />
      </div>
      <Amount frame={frame} meter={meter} day={day} />
      {meter.credited_units > 0 && meter.balance < 0 && meter.charges.length === 0 && <p>{words.noPrice}</p>}
      {meter.charges.map((charge) => (
        <Charge key={charge.price_id} frame={frame} usage={usage} meter={meter} charge={charge} />
      ))}
      {meter.days.length === 0 ? (
        <p className="links">
          <a href={`${base}/usage?meter_id=${meter.id}&timezone=${encodeURIComponent(usage.timezone)}`}>{words.plot.open}</a>
        </p>
      ) : (
        <>
          <h3>{words.plot.title(meter.days.length)}</h3>
          <Plot frame={frame} meter={meter} timezone={usage.timezone} />
          <DayTable frame={frame} meter={meter} day={day} />
          <p className="links">
            <a href={`${base}/usage/${meter.id}/csv?timezone=${encodeURIComponent(usage.timezone)}`} download>
              {words.plot.csv}
            </a>
          </p>
        </>
      )}
    </section>
  )
}

const MeterStatus = ({ frame, meter: { credited_units, balance, charges } }: { frame: Frame; meter: PortalUsageMeter }) => {
  const words = textsIn(frame, texts).status
  if (charges.length > 0 && charges.every(isCapped)) return <Status kind="wait">{words.capped}</Status>
  if (credited_units === 0) return <Status kind="off">{words.metered}</Status>
  if (balance < 0) return <Status kind="bad">{words.over}</Status>
  return balance < credited_units / 5 ? <Status kind="wait">{words.low}</Status> : <Status kind="good">{words.within}</Status>
}

/** The number of used units, against the included amount if there is one. */
const Amount = ({ frame, meter, day }: { frame: Frame; meter: PortalUsageMeter; day: (at: string) => string }) => {
  const words = textsIn(frame, texts)
  const { number, percent } = numbersIn(frame)
  const { consumed_units: used, credited_units: included, balance, since } = meter
  const from = since === null ? words.ever : words.since(day(since))
  if (included === 0)
    return (
      <p className="figure">
        {number(used)} <span className="soft">{from}</span>
      </p>
    )
  // The bar is as long as the larger of both numbers. Usage over the included amount has its own colour.
  const whole = Math.max(included, used)
  const part = (units: number) => (100 * Math.max(0, units)) / whole
  return (
    <div className="usagebar">
      <p className="figure">
        {number(used)} <span className="soft">{words.ofIncluded(number(included))}</span>
      </p>
      <svg aria-hidden="true" viewBox="0 0 100 4" preserveAspectRatio="none">
        <rect className="free" width="100" height="4" />
        <rect className="used" width={part(Math.min(used, included))} height="4" />
        {used > included && <rect className="over" x={part(included)} width={100 - part(included)} height="4" />}
      </svg>
      <p className="soft facts">
        <span>{balance < 0 ? words.over(number(-balance)) : `${words.left(number(balance))} (${percent(balance / included)})`}</span>
        <span>{from}</span>
      </p>
    </div>
  )
}

/** The cost of usage at one price: now, and at the end of the period. */
const Charge = ({ frame, usage, meter, charge }: MeterProps & { charge: PortalUsageCharge }) => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const cash = (amount: number) => money(amount, charge.currency)
  const price = usagePrice(frame, charge, meter, charge)
  const end = dayIn(frame, usage.timezone)(charge.period_end)
  return (
    <div className="charge">
      <p>
        {meter.charges.length > 1 && <strong>{charge.product_name}: </strong>}
        {charge.credited_units > 0 ? words.costsBeyond(price) : words.costs(price)} {isCapped(charge) && words.capped(cash(charge.cap_amount!))}{' '}
        {charge.is_trial && words.trial(end)}
      </p>
      <dl className="price">
        <div>
          <dt>{words.soFar}</dt>
          <dd>{cash(charge.amount)}</dd>
        </div>
        <div>
          <dt>{words.until(end)}</dt>
          <dd>{charge.projected_amount === null ? <span className="soft">{words.early}</span> : cash(charge.projected_amount)}</dd>
        </div>
      </dl>
      {charge.projected_units !== null && !charge.is_trial && <Projection frame={frame} usage={usage} meter={meter} charge={charge} />}
    </div>
  )
}

/** How the projected cost is computed, line by line. */
const Projection = ({ frame, usage, meter, charge }: MeterProps & { charge: PortalUsageCharge }) => {
  const { money } = speak(frame)
  const { number, percent } = numbersIn(frame)
  const words = textsIn(frame, texts).how
  const [start, end, at] = [charge.period_start, charge.period_end, usage.at].map((moment) => Date.parse(moment)) as [number, number, number]
  const projected = charge.projected_units!
  const lines: (readonly [string, string])[] = [
    [words.used, number(charge.consumed_units)],
    [words.projected, number(projected)],
    ...(charge.credited_units > 0 ? [[words.included, `−${number(charge.credited_units)}`] as const] : []),
    ...(charge.credited_units > 0 ? [[words.billed, number(Math.max(0, projected - charge.credited_units))] as const] : []),
    [words.price, unitPrice(frame, charge, meter)],
    ...(charge.cap_amount === null ? [] : [[words.cap, money(charge.cap_amount, charge.currency)] as const]),
    [words.amount, money(charge.projected_amount!, charge.currency)],
  ]
  return (
    <details>
      <summary>{words.title}</summary>
      <p className="soft">
        {meter.aggregation === 'count' || meter.aggregation === 'sum' ? words.grows(percent(Math.min(1, (at - start) / (end - start)))) : words.unchanged}{' '}
        {words.net}
      </p>
      <table className="sums">
        <tbody>
          {lines.map(([label, value], index) => (
            <tr key={label} className={index === lines.length - 1 ? 'total' : undefined}>
              <th scope="row">{label}</th>
              <td className="amount">{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  )
}

/** The same numbers as the plot, for screen readers and for copying. The latest day comes first. */
const DayTable = ({ frame, meter, day }: { frame: Frame; meter: PortalUsageMeter; day: (at: string) => string }) => {
  const words = textsIn(frame, texts).plot
  const { number } = numbersIn(frame)
  return (
    <details>
      <summary>{words.table}</summary>
      <table className="sums">
        <caption className="hidden">{`${meter.name}: ${words.title(meter.days.length)}`}</caption>
        <thead>
          <tr>
            <th scope="col">{words.day}</th>
            <th scope="col" className="amount">
              {words.quantity}
            </th>
          </tr>
        </thead>
        <tbody>
          {meter.days.toReversed().map(({ timestamp, quantity }, at) => (
            <tr key={timestamp}>
              <th scope="row">
                {day(timestamp)} {at === 0 && <span className="soft">({words.soFar})</span>}
              </th>
              <td className="amount">{number(quantity)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  )
}
