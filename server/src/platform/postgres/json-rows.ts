/** The names of the columns that contain a timestamp. */
type DateColumn<Row> = { [Column in keyof Row]-?: unknown extends Row[Column] ? never : Date extends Row[Column] ? Column : never }[keyof Row]

/** A row as PostgreSQL writes it in JSON. Its timestamps are text. */
export type JsonRow<Row> = { readonly [Column in keyof Row]: Column extends DateColumn<Row> ? string | Exclude<Row[Column], Date> : Row[Column] }

/** Every timestamp column of a row. The compiler finds a missing one, so that none stays text. */
export type Timestamps<Row> = Readonly<Record<DateColumn<Row>, true>>

/** Converts a row that was selected as JSON into the row that a plain select returns: parses its timestamps. */
export const fromJson = <Row extends object>(row: JsonRow<Row>, timestamps: Timestamps<Row>): Row => {
  const parsed = { ...row } as Record<string, unknown>
  for (const column in timestamps) {
    const text = parsed[column]
    if (typeof text === 'string') parsed[column] = new Date(text)
  }
  return parsed as Row
}

/** Returns `fromJson` for one type of rows. */
export const rowFromJson =
  <Row extends object>(timestamps: Timestamps<Row>): ((row: JsonRow<Row>) => Row) =>
  (row) =>
    fromJson<Row>(row, timestamps)
