/** A document as texts in a fixed layout, such as an invoice. The PDF renderer draws these texts without knowing their meaning. */
export interface Sheet {
  /** A BCP 47 language tag. */
  readonly language: string
  readonly title: string
  readonly author: string
  /** The creation date in the PDF file. It must be the same for every rendering of the document. */
  readonly dated: Date
  /** The colour of the line at the top of the first page, as `#rrggbb`. Null for none. */
  readonly accent: string | null
  /** The logo beside the heading, as the bytes of a picture. Null for none. A picture that cannot be printed is left out. */
  readonly logo: Buffer | null
  readonly heading: string
  readonly facts: readonly Pair[]
  readonly parties: readonly { readonly label: string; readonly lines: readonly string[] }[]
  /** One line with the most important information of the document. */
  readonly notice: string
  readonly lines: Table
  readonly totals: readonly (Pair & { readonly strong?: boolean })[]
  readonly tables: readonly (Table & { readonly heading: string })[]
  readonly notes: readonly string[]
  readonly footer: string
  /** Links above the footer of the last page. */
  readonly links: readonly { readonly text: string; readonly url: string }[]
  /** The template of the page number, with `{page}` and `{pages}`. Used for documents of more than one page. */
  readonly paging: string
}

export interface Pair {
  readonly label: string
  readonly value: string
}

export interface Table {
  readonly columns: readonly {
    readonly label: string
    readonly align: 'left' | 'right'
    /** The column's share of the table's width. */ readonly share: number
  }[]
  /** The rows of the table. `below` holds lines that explain a row. They are printed under the row in smaller type. */
  readonly rows: readonly { readonly cells: readonly string[]; readonly below?: readonly string[] }[]
}
