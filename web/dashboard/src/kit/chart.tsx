import { extent, max, sum } from 'd3-array'
import { scaleBand, scaleLinear } from 'd3-scale'
import { area, line } from 'd3-shape'
import { useId, useState, type KeyboardEvent, type PointerEvent } from 'react'
import { t } from '../app/texts.ts'
import { number } from './format.ts'

export interface Point {
  readonly label: string
  readonly value: number
  /** The part of the value that is bad, for example failed attempts. It is hatched. */
  readonly bad?: number
}

/** Two drawings of the same data: a wide one, and a narrow one whose texts stay readable on a phone. */
const shapes = [
  { name: 'wide', width: 960, height: 180 },
  { name: 'narrow', width: 360, height: 200 },
] as const
const margin = { top: 8, right: 8, bottom: 24, left: 44 }
/** The usual width of a character of an axis, in units of the drawing. */
const characterWidth = 6.5

const csvOf = (points: readonly Point[], columns: readonly string[]) =>
  [columns, ...points.map(({ label, value, bad }) => [label, String(value), ...(bad === undefined ? [] : [String(bad)])])]
    .map((row) => row.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(','))
    .join('\r\n')

const save = (name: string, text: string) => {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
}

/** A chart with a tooltip for pointer and arrow keys, a table of the same numbers, and a CSV file. */
export const Chart = ({
  title,
  points,
  kind = 'bar',
  format = number,
  axis = format,
  valueName,
  badName,
}: {
  title: string
  points: readonly Point[]
  kind?: 'bar' | 'line'
  format?: (value: number) => string
  /** A shorter format for the axis. */
  axis?: (value: number) => string
  valueName: string
  badName?: string
}) => {
  const [active, setActive] = useState<number | null>(null)
  const [table, setTable] = useState(false)
  const columns = [t.chart.when, valueName, ...(badName === undefined ? [] : [badName])]
  // A line or a bar of one point shows nothing that the number does not show.
  if (points.length < 2) return <p>{points[0] ? `${points[0].label}: ${format(points[0].value)}` : t.chart.nothing}</p>
  const [low = 0, high = 0] = extent(points, ({ value }) => value)
  const summary = t.chart.summary(format(sum(points, ({ value }) => value)), format(low), format(high))
  const shown = active === null ? null : points[active]!
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (step === undefined) return
    event.preventDefault()
    setActive(Math.min(points.length - 1, Math.max(0, (active ?? (step > 0 ? -1 : points.length)) + step)))
  }
  return (
    <figure className="chart">
      <div className="chart-head">
        <figcaption>{title}</figcaption>
        <div className="actions">
          <button type="button" className="quiet" aria-pressed={table} onClick={() => setTable(!table)}>
            {table ? t.chart.asChart : t.chart.asTable}
          </button>
          <button type="button" className="quiet" onClick={() => save(`${title}.csv`, csvOf(points, columns))}>
            CSV
          </button>
        </div>
      </div>
      {table ? (
        <table>
          <thead>
            <tr>
              {columns.map((name, at) => (
                <th key={name} scope="col" className={at > 0 ? 'amount' : undefined}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {points.map(({ label, value, bad }) => (
              <tr key={label}>
                <th scope="row">{label}</th>
                <td className="amount">{format(value)}</td>
                {bad !== undefined && <td className="amount">{format(bad)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <div role="group" aria-label={`${title}. ${summary} ${t.chart.keys}`} tabIndex={0} onKeyDown={move} onBlur={() => setActive(null)}>
          {shapes.map((shape) => (
            <Drawing key={shape.name} {...shape} points={points} kind={kind} active={active} onPoint={setActive} axis={axis} />
          ))}
          <p className="tip" aria-live="polite">
            {shown ? `${shown.label}: ${format(shown.value)}${shown.bad && badName ? ` · ${badName}: ${format(shown.bad)}` : ''}` : summary}
          </p>
        </div>
      )}
    </figure>
  )
}

const Drawing = ({
  name,
  width,
  height,
  points,
  kind,
  active,
  onPoint,
  axis,
}: (typeof shapes)[number] & {
  points: readonly Point[]
  kind: 'bar' | 'line'
  active: number | null
  onPoint: (at: number | null) => void
  axis: (value: number) => string
}) => {
  const hatch = useId()
  const y = scaleLinear()
    .domain([0, max(points, ({ value }) => value) || 1])
    .nice(4)
    .range([height - margin.bottom, margin.top])
  // Steps of less than a shown digit would have the same name.
  const ticks = y.ticks(4).filter((tick, at, all) => at === 0 || axis(tick) !== axis(all[at - 1]!))
  const left = Math.max(margin.left, 12 + characterWidth * Math.max(...ticks.map((tick) => axis(tick).length)))
  const x = scaleBand<number>()
    .domain(points.keys())
    .range([left, width - margin.right])
    .padding(0.25)
  const middle = (at: number) => x(at)! + x.bandwidth() / 2
  const every = Math.ceil(points.length / (width > 500 ? 10 : 4))
  const point = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect()
    const at = Math.floor((((event.clientX - box.left) / box.width) * width - left) / x.step())
    onPoint(at >= 0 && at < points.length ? at : null)
  }
  return (
    <svg className={name} viewBox={`0 0 ${width} ${height}`} aria-hidden="true" onPointerMove={point} onPointerLeave={() => onPoint(null)}>
      <defs>
        <pattern id={hatch} width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="2.5" height="5" className="bad" />
        </pattern>
      </defs>
      {ticks.map((tick) => (
        <g key={tick}>
          <line className="grid" x1={left} x2={width - margin.right} y1={y(tick)} y2={y(tick)} />
          <text x={left - 8} y={y(tick) + 4} textAnchor="end">
            {axis(tick)}
          </text>
        </g>
      ))}
      {points.map(({ label }, at) =>
        at % every === 0 ? (
          <text key={label} x={middle(at)} y={height - 6} textAnchor="middle">
            {label}
          </text>
        ) : null,
      )}
      {kind === 'bar' ? (
        points.map(({ label, value, bad = 0 }, at) => (
          <g key={label} className={active === null || active === at ? 'bar' : 'bar dim'}>
            <rect x={x(at)} y={y(value)} width={x.bandwidth()} height={y(0) - y(value)} rx="2" />
            {bad > 0 && <rect className="over" fill={`url(#${hatch})`} x={x(at)} y={y(bad)} width={x.bandwidth()} height={y(0) - y(bad)} />}
          </g>
        ))
      ) : (
        <>
          <path
            className="area"
            d={
              area<Point>()
                .x((_, at) => middle(at))
                .y0(y(0))
                .y1(({ value }) => y(value))([...points]) ?? ''
            }
          />
          <path
            className="line"
            d={
              line<Point>()
                .x((_, at) => middle(at))
                .y(({ value }) => y(value))([...points]) ?? ''
            }
          />
          {active !== null && <circle className="dot" cx={middle(active)} cy={y(points[active]!.value)} r="4" />}
        </>
      )}
    </svg>
  )
}
