import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, totalmem } from 'node:os'

export interface Figure {
  readonly what: string
  readonly value: number
  readonly unit: string
}

/** The result of one benchmark. `ratio` is the quotient of the medians. `ratios` are the quotients of the rounds, if there are any. */
export interface Outcome {
  readonly ratio: number
  readonly ratios?: readonly number[]
  readonly figures: readonly Figure[]
  readonly rows?: number
  readonly rounds: number
}

export interface Goal {
  /** The quotient or amount that is measured, in words for a reader who has not seen the code. */
  readonly measures: string
  readonly goal: string
  readonly unit?: string
}

export interface Machine {
  readonly cores: number
  readonly cpu: string
  readonly memory_gib: number
  readonly postgresql: string
  readonly node: string
  /** Load average of the minute before. A value much above one means that other programs were running. */
  readonly load_before?: number
}

export interface Result extends Goal, Outcome {
  readonly bench: string
  readonly date: string
  /** The machine that ran the benchmark. Absent if it was not recorded. */
  readonly machine?: Machine
  readonly reached: boolean
  /** Origin of the figures, if they do not come from one run of the command. */
  readonly source?: string
  /** A note about this run for readers. */
  readonly note?: string
}

const root = new URL('../../', import.meta.url)
const folder = new URL('bench/results/', root)

export const machineOf = (postgresql: string): Machine => ({
  cores: cpus().length,
  cpu: cpus()[0]!.model,
  memory_gib: Math.round(totalmem() / 2 ** 30),
  postgresql,
  node: process.version.slice(1),
  load_before: loadavg()[0]!,
})

export const isReached = (goal: string, ratio: number): boolean => {
  const [sign, bound] = goal.split(' ') as [string, string]
  return sign === '>=' ? ratio >= Number(bound) : ratio <= Number(bound)
}

const rounded = (_: string, value: unknown) => (typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value)

/** Saves a result, for the documents and for comparisons. */
export const storeResult = (name: string, content: unknown): void => writeFileSync(new URL(`${name}.json`, folder), `${JSON.stringify(content, rounded, 2)}\n`)

const read = (name: string): unknown => JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8'))

const scale = 'scale'

export interface Step {
  readonly orders: number
  readonly first_page_ms: number
  readonly last_page_ms: number
  readonly last_page_by_cursor_ms: number
  readonly filtered_count_ms: number
  readonly export_seconds: number
  readonly export_mib: number
  readonly export_memory_mib: number
  readonly table_mib: number
  readonly index_mib: number
  readonly items_mib: number
}

export interface Scale {
  readonly bench: string
  readonly date: string
  readonly machine: Machine
  readonly rounds: number
  readonly note?: string
  readonly steps: readonly Step[]
}

const number = (value: number) => value.toLocaleString('en', { maximumSignificantDigits: value >= 1000 ? 15 : 3, maximumFractionDigits: 20 })
const whole = (value: number) => number(value >= 100 ? Math.round(value) : value)

const told = ({ cpu, cores, memory_gib, postgresql, node }: Machine) =>
  `${cores} cores of ${cpu.replaceAll('(R)', '')}, ${memory_gib} GiB, PostgreSQL ${postgresql}, Node ${node}`

const digits = (value: number) => (value < 10 ? value.toFixed(2) : whole(value))

const row = (result: Result) => {
  const { bench, measures, ratio, ratios = [], goal, reached, figures, rows, rounds, source, note, unit = '' } = result
  const [least, most] = [Math.min(...ratios), Math.max(...ratios)]
  const range = ratios.length > 1 ? ` (${digits(least)}–${digits(most)})` : ''
  const how = source ?? [rows === undefined ? '' : `${number(rows)} rows`, `${rounds} ${rounds === 1 ? 'round' : 'rounds'}`].filter(Boolean).join(', ')
  const seen = figures.map(({ what, value, unit: of }) => `${what} ${whole(value)}${of}`).join(' · ')
  return `| \`${bench}\` | ${measures} | ${digits(ratio)}${unit}${range} | ${goal.replace('>=', '≥').replace('<=', '≤')}${unit}${reached ? '' : ', **missed**'} | ${[seen, how, note].filter(Boolean).join('; ')} |`
}

/** One paragraph with a sentence for each missed goal. */
const missedGoals = (results: readonly Result[]): string => {
  const missed = results.filter(({ reached }) => !reached)
  const sentences = missed.map(({ bench, measures, ratio, goal, unit = '' }) => {
    const subject = `${measures[0]!.toUpperCase()}${measures.slice(1)}`.replace(': ', ', ')
    return `${subject}: ${digits(ratio)}${unit} instead of ${goal.replace('>=', 'at least').replace('<=', 'at most')}${unit} (\`${bench}\`).`
  })
  return missed.length === 0 ? `All ${results.length} goals are reached.` : `**${missed.length} of ${results.length} goals are missed.** ${sentences.join(' ')}`
}

const benches = (): string => {
  const results = readdirSync(folder)
    .filter((name) => name.endsWith('.json') && name !== `${scale}.json`)
    .sort()
    .map((name) => read(name.replace('.json', '')) as Result)
    .sort((one, other) => Number(one.reached) - Number(other.reached))
  const machines = [...new Set(results.flatMap(({ machine }) => (machine ? [told(machine)] : [])))]
  const dates = results.map(({ date }) => date.slice(0, 10)).sort()
  return [
    missedGoals(results),
    '',
    '| bench | measures | result | goal | figures |',
    '|---|---|---|---|---|',
    ...results.map(row),
    '',
    `The brackets hold the lowest and the highest result of the rounds. Measured ${dates[0] === dates.at(-1) ? `on ${dates[0]}` : `from ${dates[0]} to ${dates.at(-1)}`}${machines.length === 0 ? '.' : ' on:'}`,
    ...(machines.length === 0 ? [] : ['', ...machines.map((machine) => `- ${machine}`)]),
  ].join('\n')
}

const time = (milliseconds: number) => (milliseconds >= 1000 ? `${number(Number((milliseconds / 1000).toPrecision(3)))} s` : `${number(milliseconds)} ms`)
const size = (mib: number) => (mib >= 1024 ? `${number(Number((mib / 1024).toPrecision(3)))} GiB` : `${number(mib)} MiB`)

const growth = (): string => {
  if (!existsSync(new URL(`${scale}.json`, folder))) return 'Nothing has been measured yet.'
  const { steps, machine, date, rounds, note } = read(scale) as Scale
  const line = (name: string, figure: (step: Step) => string) => `| ${name} | ${steps.map(figure).join(' | ')} |`
  return [
    `| orders of one organization | ${steps.map(({ orders }) => number(orders)).join(' | ')} |`,
    `|---|${steps.map(() => '---:').join('|')}|`,
    line('first page', (step) => time(step.first_page_ms)),
    line('last page, by `page`', (step) => time(step.last_page_ms)),
    line('last page, by `cursor`', (step) => time(step.last_page_by_cursor_ms)),
    line('first page of a filter that leaves 19 in 20, with its count', (step) => time(step.filtered_count_ms)),
    line('export', (step) => `${time(step.export_seconds * 1000)}, ${size(step.export_mib)}`),
    line('export, orders a second', (step) => number(Math.round(step.orders / step.export_seconds))),
    line('memory of the API, highest during the export over idle', (step) => size(step.export_memory_mib)),
    line('table `orders`', (step) => size(step.table_mib)),
    line('its indexes', (step) => size(step.index_mib)),
    line('`order_items`, with indexes', (step) => size(step.items_mib)),
    '',
    `Medians of ${rounds} rounds on ${told(machine)}, ${date.slice(0, 10)}.${note === undefined ? '' : ` Note: ${note}.`}`,
  ].join('\n')
}

const places = [
  { file: 'docs/performance.md', marker: 'figures', render: benches },
  { file: 'docs/scale.md', marker: 'growth', render: growth },
]

/**
 * Returns each document that shows measured figures: its current text, and the text that it should have according to
 * the stored results.
 */
export const shown = () =>
  places.map(({ file, marker, render }) => {
    const text = readFileSync(new URL(file, root), 'utf8')
    const [before, rest] = text.split(`<!-- ${marker}: written by pnpm bench docs -->\n`)
    const [, after] = rest?.split(`<!-- end of ${marker} -->`) ?? []
    if (after === undefined) throw new Error(`${file} has no place for its ${marker}`)
    const wanted = `${before}<!-- ${marker}: written by pnpm bench docs -->\n\n${render()}\n\n<!-- end of ${marker} -->${after}`
    return { file, text, wanted, write: () => writeFileSync(new URL(file, root), wanted) }
  })
