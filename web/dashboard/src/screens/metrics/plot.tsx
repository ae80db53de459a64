import { extent } from 'd3-array'
import { scaleLinear, scalePoint } from 'd3-scale'
import { area, line } from 'd3-shape'
import type { KeyboardEvent, PointerEvent } from 'react'
import { t } from '../../app/texts.ts'
import { cursor, type Spot } from './view.ts'

/** Drawings of the same data: wide and narrow for a whole screen, and one for a card. Their texts stay readable on a phone. */
const shapes = {
  full: [
    { name: 'wide', width: 960, height: 240 },
    { name: 'narrow', width: 380, height: 220 },
  ],
  card: [{ name: 'card', width: 400, height: 160 }],
} as const
const margin = { top: 10, right: 14, bottom: 24, left: 62 }

interface Props {
  readonly title: string
  readonly spots: readonly Spot[]
  readonly size: keyof typeof shapes
  readonly full: (value: number) => string
  readonly short: (value: number) => string
  readonly total: number
  readonly onChoose: (key: string) => void
}

/** A line of values over time, with the period before as a dashed line. Pointer and arrow keys read single values. */
const Plot = ({ title, spots, size, full, short, total, onChoose }: Props) => {
  const active = cursor.use()
  const shown = active === null ? undefined : spots[active]
  const [low = 0, high = 0] = extent(spots, ({ value }) => value)
  const summary = t.metrics.summary(full(low), full(high))
  const move = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && shown) onChoose(shown.key)
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (step === undefined) return
    event.preventDefault()
    cursor.set(Math.min(spots.length - 1, Math.max(0, (active ?? (step > 0 ? -1 : spots.length)) + step)))
  }
  return (
    <div role="group" aria-label={`${title}: ${full(total)}. ${summary} ${t.metrics.keys}`} tabIndex={0} onKeyDown={move} onBlur={() => cursor.set(null)}>
      {shapes[size].map((shape) => (
        <Drawing key={shape.name} {...shape} spots={spots} short={short} active={shown ? active : null} onChoose={onChoose} />
      ))}
      <p className="tip" aria-live="polite">
        {shown ? `${shown.label}: ${full(shown.value)}` : summary}
        {shown?.before !== undefined && <span className="key">{t.metrics.beforeWas(full(shown.before))}</span>}
        {shown === undefined && spots.some(({ before }) => before !== undefined) && <span className="key">{t.metrics.before}</span>}
      </p>
    </div>
  )
}
export default Plot

const Drawing = ({
  name,
  width,
  height,
  spots,
  short,
  active,
  onChoose,
}: { name: string; width: number; height: number; active: number | null } & Pick<Props, 'spots' | 'short' | 'onChoose'>) => {
  const x = scalePoint<number>()
    .domain(spots.keys())
    .range([margin.left, width - margin.right])
  const [low = 0, high = 0] = extent(spots.flatMap(({ value, before }) => [value, ...(before === undefined ? [] : [before])]))
  const y = scaleLinear()
    .domain([Math.min(0, low), Math.max(0, high) || (low < 0 ? 0 : 1)])
    .nice(4)
    .range([height - margin.bottom, margin.top])
  // Counts have no halves, so neither has their axis.
  const areWhole = spots.every(({ value, before = 0 }) => Number.isInteger(value) && Number.isInteger(before))
  const ticks = y.ticks(4).filter((tick) => !areWhole || Number.isInteger(tick))
  // Steps of less than a shown digit would have the same name.
  const named = ticks.filter((tick, at) => at === 0 || short(tick) !== short(ticks[at - 1]!))
  const every = Math.ceil(spots.length / (width > 500 ? 10 : 4))
  const placeOf = (event: PointerEvent<SVGSVGElement>): number | null => {
    const box = event.currentTarget.getBoundingClientRect()
    const at = Math.round((((event.clientX - box.left) / box.width) * width - margin.left) / x.step())
    return at >= 0 && at < spots.length ? at : null
  }
  const points = spots.map((spot, at) => ({ ...spot, at }))
  const values = line<(typeof points)[number]>()
    .x(({ at }) => x(at)!)
    .y(({ value }) => y(value))
  const surface = area<(typeof points)[number]>()
    .x(({ at }) => x(at)!)
    .y0(y(0))
    .y1(({ value }) => y(value))
  const earlier = line<(typeof points)[number]>()
    .defined(({ before }) => before !== undefined)
    .x(({ at }) => x(at)!)
    .y(({ before }) => y(before ?? 0))
  return (
    <svg
      className={name}
      viewBox={`0 0 ${width} ${height}`}
      aria-hidden="true"
      onPointerMove={(event) => cursor.set(placeOf(event))}
      onPointerLeave={() => cursor.set(null)}
      onClick={(event) => {
        const at = placeOf(event as unknown as PointerEvent<SVGSVGElement>)
        if (at !== null) onChoose(spots[at]!.key)
      }}
    >
      {named.map((tick) => (
        <g key={tick}>
          <line className="grid" x1={margin.left} x2={width - margin.right} y1={y(tick)} y2={y(tick)} />
          <text x={margin.left - 8} y={y(tick) + 4} textAnchor="end">
            {short(tick)}
          </text>
        </g>
      ))}
      {spots.map(({ key, tick }, at) =>
        at % every === 0 ? (
          <text key={key} x={x(at)} y={height - 6} textAnchor={at === 0 ? 'start' : x(at)! > width - 40 ? 'end' : 'middle'}>
            {tick}
          </text>
        ) : null,
      )}
      <path className="area" d={surface(points) ?? ''} />
      <path className="line before" d={earlier(points) ?? ''} />
      <path className="line" d={values(points) ?? ''} />
      {active !== null && (
        <>
          <line className="rule" x1={x(active)} x2={x(active)} y1={margin.top} y2={height - margin.bottom} />
          <circle className="dot" cx={x(active)} cy={y(spots[active]!.value)} r="4" />
        </>
      )}
    </svg>
  )
}
