import type { Frame, PortalUsage, PortalUsageMeter } from '@bursar/views'
import { textsIn } from '../../kit/index.ts'
import { dayIn, numbersIn } from './formats.ts'
import { texts } from './texts.ts'

interface Size {
  readonly name: 'wide' | 'narrow'
  readonly width: number
  readonly height: number
}

/** The two drawings of a plot. A single one would be unreadable on a phone. The stylesheet shows one of them. */
const sizes: readonly Size[] = [
  { name: 'wide', width: 900, height: 220 },
  { name: 'narrow', width: 320, height: 190 },
]

const edge = { right: 2, top: 14, bottom: 26 }
/** The width of a digit of the labels. */
const digit = 8

/** Returns a round number that is not below a number, for the highest line of a plot. Small numbers become even, so that their half is whole. */
const roundUp = (value: number): number => {
  if (value <= 10) return Math.max(2, 2 * Math.ceil(value / 2))
  const power = 10 ** Math.floor(Math.log10(value))
  return power * ([1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value) ?? 10)
}

/** Returns the outline of a bar with rounded upper corners. */
const barOf = (x: number, y: number, width: number, base: number): string => {
  const r = Math.min(2, base - y, width / 2)
  const [left, right, top, low] = [x, x + width, y, base].map((place) => Math.round(place * 10) / 10) as [number, number, number, number]
  return `M${left} ${low}V${top + r}Q${left} ${top} ${left + r} ${top}H${right - r}Q${right} ${top} ${right} ${top + r}V${low}Z`
}

interface PlotProps {
  readonly frame: Frame
  readonly meter: PortalUsageMeter
  readonly timezone: PortalUsage['timezone']
}

/** The usage of the last days as bars. Today is drawn as an outline, because it is not over yet. */
export const Plot = ({ frame, meter, timezone }: PlotProps) => {
  const words = textsIn(frame, texts).plot
  const { number } = numbersIn(frame)
  const day = dayIn(frame, timezone)
  const { days } = meter
  const today = days.at(-1)!
  const peak = days.reduce((most, one) => (one.quantity > most.quantity ? one : most))
  const summary = peak.quantity > 0 ? words.total(number(peak.quantity), day(peak.timestamp), number(today.quantity)) : words.quiet
  return (
    <div className="plot">
      {sizes.map((size) => (
        <Drawing key={size.name} frame={frame} meter={meter} timezone={timezone} size={size} most={roundUp(peak.quantity)} summary={summary} />
      ))}
      <p className="soft">{summary}</p>
    </div>
  )
}

const Drawing = ({ frame, meter, timezone, size, most, summary }: PlotProps & { size: Size; most: number; summary: string }) => {
  const words = textsIn(frame, texts).plot
  const { compact } = numbersIn(frame)
  const day = dayIn(frame, timezone, 'short')
  const { days } = meter
  const { width, height } = size
  const levels = [0, most / 2, most]
  const margin = { ...edge, left: 10 + digit * Math.max(...levels.map((level) => compact(level).length)) }
  const base = height - margin.bottom
  const slot = (width - margin.left - margin.right) / days.length
  const gap = Math.min(4, slot / 4)
  const yOf = (quantity: number) => base - (Math.max(0, Math.min(quantity, most)) / most) * (base - margin.top)
  const bar = (at: number) => barOf(margin.left + at * slot + gap / 2, yOf(days[at]!.quantity), slot - gap, base)
  const last = days.length - 1
  const middle = Math.floor(last / 2)
  const centre = (at: number) => margin.left + (at + 0.5) * slot
  const id = `plot-${meter.id}-${size.name}`
  return (
    <svg className={size.name} role="img" aria-labelledby={`${id}-title ${id}-text`} viewBox={`0 0 ${width} ${height}`}>
      <title id={`${id}-title`}>{`${meter.name}: ${words.title(days.length)}`}</title>
      <desc id={`${id}-text`}>{summary}</desc>
      {levels.map((level) => (
        <g key={level} aria-hidden="true">
          <path className={level === 0 ? 'axis' : 'grid'} d={`M${margin.left} ${yOf(level)}H${width - margin.right}`} />
          <text x={margin.left - 8} y={yOf(level) + 4} textAnchor="end">
            {compact(level)}
          </text>
        </g>
      ))}
      <path
        className="days"
        d={days
          .slice(0, last)
          .map((one, at) => (one.quantity > 0 ? bar(at) : ''))
          .join('')}
      />
      {days[last]!.quantity > 0 && <path className="today" d={bar(last)} />}
      <g aria-hidden="true">
        <text x={margin.left} y={height - 5}>
          {day(days[0]!.timestamp)}
        </text>
        {days.length > 4 && (
          <text x={centre(middle)} y={height - 5} textAnchor="middle">
            {day(days[middle]!.timestamp)}
          </text>
        )}
        <path className="mark-today" d={`M${centre(last)} ${base + 2}l3.5 5h-7z`} />
        <text className="now" x={width - margin.right} y={height - 5} textAnchor="end">
          {words.today}
        </text>
      </g>
    </svg>
  )
}
