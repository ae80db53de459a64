import { exponents, type Exponents } from '@bursar/contract'
import { formulaPlaces } from '../../kernel/csv.ts'
import { stepOf } from '../../kernel/money.ts'

/**
 * The SQL statements of an export. They never contain input of the caller, so that no input becomes SQL. Input values
 * are passed in `asked`, and the statements read them with the SQL of `asked()`.
 */
export interface Export {
  readonly copy: string
  /** The statement that counts the exported records. Returns one row with `total`. */
  readonly count: string
  readonly asked: Readonly<Record<string, string | boolean>>
  /** The organizations whose records are exported. Each has a limit of concurrent exports. */
  readonly organizations: readonly string[]
  readonly timezone: string
}

/** A column of the file: its header, and the SQL expression of its cells. */
export interface Column {
  readonly header: string
  readonly cell: string
}

export interface ExportSpec {
  /** The table, with the alias that all expressions use. */
  readonly table: string
  readonly alias: string
  /** Joined tables for some cells. Each join yields at most one row, so that PostgreSQL can drop a join whose columns are not exported. */
  readonly joined?: string
  /** The sort key besides the id, the same as in the list of these records. */
  readonly newest: string
  /** The collections whose stored counters give the number of records. Without them the rows are counted for each export. */
  readonly counted?: readonly string[] | undefined
  readonly always?: string
}

/** A filter of an export: its value, and the SQL condition. The value is undefined if the caller did not request the filter. */
export interface Filter {
  readonly name: string
  readonly value: string | boolean | undefined
  readonly type: 'uuid[]' | 'text[]' | 'bigint' | 'boolean'
  readonly holds: (asked: string) => string
}

/** Matches one of these values, none of which can contain a quote. */
export const among = (column: string, type: 'uuid[]' | 'text[]', name: string, values: readonly string[]): Filter => ({
  name,
  type,
  value: values.length === 0 ? undefined : listed(values),
  holds: (asked) => `${column} = any(${asked}::${type})`,
})

/** Matches strictly after one point in time and before another. */
export const between = (column: string, names: readonly [string, string], after: Date | undefined, before: Date | undefined): Filter[] => [
  { name: names[0], type: 'bigint', value: after && String(after.getTime()), holds: (asked) => `${column} > to_timestamp(${asked} / 1000.0)` },
  { name: names[1], type: 'bigint', value: before && String(before.getTime()), holds: (asked) => `${column} < to_timestamp(${asked} / 1000.0)` },
]

/** Returns the SQL that reads a value from `asked`. The subquery is evaluated once per statement instead of once per row. */
export const asked = (name: string, type: string): string => `(select (current_setting('bursar.export')::jsonb ->> '${name}')::${type})`

/** Formats values as a PostgreSQL array literal. */
const listed = (values: readonly string[]): string => `{${values.join()}}`

/**
 * Builds the export of some columns, newest first. One organization is read along its index without sorting. The first
 * line is therefore sent at once, and memory use stays constant. Several organizations are sorted together.
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

const quoted = (literal: string): string => `'${literal.replaceAll("'", "''")}'`

/**
 * Returns the SQL that escapes user text like `escapeFormula`. Text that starts with a letter or digit and has no
 * separator, as nearly all text, is not changed, and needs no regular expression.
 */
export const text = (value: string): string =>
  `case when (ascii(${value}) between 97 and 122 or ascii(${value}) between 48 and 57 or ascii(${value}) between 65 and 90)
    and strpos(${value}, chr(10)) = 0 and strpos(${value}, chr(13)) = 0 and strpos(${value}, chr(9)) = 0 and strpos(${value}, ';') = 0 then ${value}
    else regexp_replace(regexp_replace(${value}, ${quoted(formulaPlaces.later)}, ${quoted(String.raw`\&'`)}, 'g'), ${quoted(formulaPlaces.first)}, '''') end`

/** Formats a timestamp with the offset of the requested time zone. */
export const moment = (value: string): string => `to_char(${value}, 'YYYY-MM-DD"T"HH24:MI:SS.MSTZH:TZM')`

/** Returns the cell of a number, a code or an id without escaping, because such a value cannot be a formula. */
export const plain = (value: string): string => value

/** The smallest payable amount of a currency in SQL, equal to `stepOf`. */
export const step = (currency: string): string =>
  `case ${[...exponents.keys()]
    .filter((name) => stepOf(name) > 1)
    .map((name) => `when ${currency} = '${name}' then ${stepOf(name)}`)
    .join(' ')} else 1 end`

const factor = ({ wire, display }: Exponents): string =>
  wire === 0 && display === 0 ? '1' : wire === 0 ? `1.${'0'.repeat(display)}` : `0.${'1'.padStart(wire, '0')}`

/** Returns the SQL that converts an amount in minor units to a decimal number, with the same decimal places as `formatAmount`. */
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
