/** A document as plain texts in their places: who lays it out needs to know nothing of what it says. */
export interface Sheet {
  /** As BCP 47 writes it. */
  readonly language: string
  readonly title: string
  readonly author: string
  /** What the file says of when it was made: the same each time it is made. */
  readonly dated: Date
  readonly heading: string
  readonly facts: readonly Pair[]
  readonly parties: readonly { readonly label: string; readonly lines: readonly string[] }[]
  /** What matters most, in one line. */
  readonly notice: string
  readonly lines: Table
  readonly totals: readonly (Pair & { readonly strong?: boolean })[]
  readonly tables: readonly (Table & { readonly heading: string })[]
  readonly notes: readonly string[]
  readonly footer: string
  /** With `{page}` and `{pages}`, for documents of more than one page. */
  readonly paging: string
}

export interface Pair {
  readonly label: string
  readonly value: string
}

export interface Table {
  readonly columns: readonly { readonly label: string; readonly align: 'left' | 'right'; /** Its share of the width. */ readonly share: number }[]
  /** Below stands what explains a row, in smaller letters. */
  readonly rows: readonly { readonly cells: readonly string[]; readonly below?: readonly string[] }[]
}
