import { exponents, type Exponents } from '@bursar/contract'
import { stepOf } from '../../kernel/money.ts'

/**
 * What an export asks of the database. Both texts are put together from our own words alone: whatever a caller sent goes
 * into `asked` and is read from there by `asked()`, so that no input ever becomes SQL.
 */
export interface Export {
  readonly copy: string
  /** How many lines it will have: one row with `total`. */
  readonly count: string
  readonly asked: Readonly<Record<string, string | boolean>>
  /** Whose records they are: each of these may have a few exports at a time. */
  readonly organizations: readonly string[]
  readonly timezone: string
}

/** A column of the file: its header, and the expression that writes a cell. */
export interface Column {
  readonly header: string
  readonly cell: string
}

export interface ExportSpec {
  /** The table, under the alias by which every expression knows it. */
  readonly table: string
  readonly alias: string
  /** Tables that are looked into for a cell: one row at most, so that those no column needs fall away. */
  readonly joined?: string
  /** What orders the lines, besides the id: the key that the list of the same records runs by. */
  readonly newest: string
  /** The names under which the records are counted as they come and go; without them they are counted when asked. */
  readonly counted?: readonly string[] | undefined
  readonly always?: string
}

/** A filter: what was asked for, and the condition that it makes of the expression which reads it; nothing was asked for where there is no value. */
export interface Filter {
  readonly name: string
  readonly value: string | boolean | undefined
  readonly type: 'uuid[]' | 'text[]' | 'bigint' | 'boolean'
  readonly holds: (asked: string) => string
}

/** One of these values, none of which can hold a quote. */
export const among = (column: string, type: 'uuid[]' | 'text[]', name: string, values: readonly string[]): Filter => ({
  name,
  type,
  value: values.length === 0 ? undefined : listed(values),
  holds: (asked) => `${column} = any(${asked}::${type})`,
})

/** Strictly after one moment and before another. */
export const between = (column: string, names: readonly [string, string], after: Date | undefined, before: Date | undefined): Filter[] => [
  { name: names[0], type: 'bigint', value: after && String(after.getTime()), holds: (asked) => `${column} > to_timestamp(${asked} / 1000.0)` },
  { name: names[1], type: 'bigint', value: before && String(before.getTime()), holds: (asked) => `${column} < to_timestamp(${asked} / 1000.0)` },
]

/** Read once for the whole statement, and not for each row. */
export const asked = (name: string, type: string): string => `(select (current_setting('bursar.export')::jsonb ->> '${name}')::${type})`

/** A list of values as the database reads one. */
const listed = (values: readonly string[]): string => `{${values.join()}}`

/**
 * The export of some columns, newest first. One organization is read along its index and needs no sorting, so that the
 * first line leaves at once and memory does not grow; several are sorted together.
 */
export const exportOf = (
  spec: ExportSpec,
  columns: readonly Column[],
  what: { readonly organizations: readonly string[]; readonly timezone: string; readonly filters: readonly Filter[] },
): Export => {
  const filters = what.filters.filter(({ value }) => value !== undefined)
  const { alias } = spec
  const [only, another] = what.organizations
  const tenant = `${alias}.organization_id = ${another === undefined ? asked('organization', 'uuid') : `any(${asked('organizations', 'uuid[]')}::uuid[])`}`
  const where = [tenant, ...(spec.always ? [spec.always] : []), ...filters.map(({ name, type, holds }) => holds(asked(name, type)))].join(' and ')
  return {
    copy: `copy (select ${columns.map(({ header, cell }) => `${cell} as "${header}"`).join(', ')} from ${spec.table} ${alias} ${spec.joined ?? ''}
      where ${where} order by ${spec.newest} desc, ${alias}.id desc) to stdout with (format csv, header)`,
    count:
      spec.counted && filters.length === 0
        ? `select coalesce(sum(delta), 0)::bigint as total from collection_deltas d where ${tenant.replace(`${alias}.`, 'd.')} and collection in (${spec.counted.map((name) => `'${name}'`).join()})`
        : `select count(*) as total from ${spec.table} ${alias} where ${where}`,
    asked: {
      ...Object.fromEntries(filters.map(({ name, value }) => [name, value!])),
      ...(another === undefined ? { organization: only! } : { organizations: listed(what.organizations) }),
    },
    organizations: what.organizations,
    timezone: what.timezone,
  }
}

/**
 * What a spreadsheet skips before a formula, and what begins one; a cell that begins with a tab or a new line is suspect,
 * too. Within a cell whatever a careless reader could take for its end counts as one: line ends, tabs, and the semicolon
 * by which spreadsheets of half the world separate.
 */
const skipped = String.raw`[ \u0001-\u0008\u000b\u000c\u000e-\u001f\u007f-\u00a0\u1680\u2000-\u200f\u2028-\u202f\u00ad\u180e\u205f-\u2064\u3000\ufeff]*`
const begins = String.raw`=+@|%\u002d\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b\u2212`
const first = String.raw`^(?='*${skipped}[${begins}\t\r\n])`
const later = String.raw`[\r\n\t;](?='*${skipped}[${begins}])`

const quoted = (literal: string): string => `'${literal.replaceAll("'", "''")}'`

/**
 * Text that people wrote. Whatever a spreadsheet could take for a formula gets an apostrophe in front, also within
 * the cell. Where apostrophes stand there already they get one more, so that taking one away gives back what
 * was stored. What begins with a letter or a digit and has nothing like an end in it – nearly everything – is not looked at more closely.
 */
export const text = (value: string): string =>
  `case when (ascii(${value}) between 97 and 122 or ascii(${value}) between 48 and 57 or ascii(${value}) between 65 and 90)
    and strpos(${value}, chr(10)) = 0 and strpos(${value}, chr(13)) = 0 and strpos(${value}, chr(9)) = 0 and strpos(${value}, ';') = 0 then ${value}
    else regexp_replace(regexp_replace(${value}, ${quoted(later)}, ${quoted(String.raw`\&'`)}, 'g'), ${quoted(first)}, '''') end`

/** A moment, with the offset of the zone that was asked for. */
export const moment = (value: string): string => `to_char(${value}, 'YYYY-MM-DD"T"HH24:MI:SS.MSTZH:TZM')`

/** A whole number, a code or an id: nothing that anybody could have written a formula into. */
export const plain = (value: string): string => value

/** The smallest amount that can be paid in a currency, as `stepOf` has it. */
export const step = (currency: string): string =>
  `case ${[...exponents.keys()]
    .filter((name) => stepOf(name) > 1)
    .map((name) => `when ${currency} = '${name}' then ${stepOf(name)}`)
    .join(' ')} else 1 end`

const factor = ({ wire, display }: Exponents): string =>
  wire === 0 && display === 0 ? '1' : wire === 0 ? `1.${'0'.repeat(display)}` : `0.${'1'.padStart(wire, '0')}`

/** An amount in minor units as a decimal number, with the digits that `formatAmount` gives it: numbers stay numbers. */
export const amount = (value: string, currency: string): string => {
  const byDigits = Map.groupBy(exponents, ([, { wire, display }]) => `${wire} ${display}`)
  const cases = [...byDigits.values()].map((group) => {
    const [, digits] = group[0]!
    const exact = `${value} * ${factor(digits)}`
    const smallest = 10 ** Math.max(0, digits.wire - digits.display)
    const written = smallest === 1 ? exact : `case when ${value} % ${smallest} = 0 then (${value} / ${smallest})::numeric else ${exact} end`
    return `when ${currency} in (${group.map(([name]) => `'${name}'`).join()}) then ${written}`
  })
  return `case ${cases.join(' ')} else ${value} * ${factor({ wire: 2, processor: 2, display: 2 })} end`
}
