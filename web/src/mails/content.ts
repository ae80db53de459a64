/** A row of a table: a label and its value. */
export interface Row {
  readonly label: string
  readonly value: string
  /** `total` is emphasized. */
  readonly tone?: 'total'
}

/** The parts of which mails consist. HTML and plain text are both made from them, so they have the same content. */
export type Block =
  | { readonly type: 'text'; readonly text: string }
  /** A remark in small print, such as how long a link works. */
  | { readonly type: 'note'; readonly text: string }
  /** A large figure: the amount that the mail is about. */
  | { readonly type: 'amount'; readonly value: string; readonly note: string }
  /** A code that the reader types. */
  | { readonly type: 'code'; readonly code: string }
  /** Lines with amounts, or facts about something. */
  | { readonly type: 'rows'; readonly title?: string; readonly rows: readonly Row[] }
  /** A product with its picture. */
  | { readonly type: 'picture'; readonly name: string; readonly url: string }
  /** Named things with values to copy, such as license keys, and with links. */
  | { readonly type: 'items'; readonly title: string; readonly items: readonly Item[] }

interface Item {
  readonly name: string
  readonly values: readonly string[]
  /** A text of the seller, as Markdown. */
  readonly markdown?: string | null
  readonly links?: readonly MailLink[]
}

export interface MailLink {
  readonly label: string
  readonly href: string
}

/** The content of one mail. Each mail has one primary button. */
export interface Content {
  readonly subject: string
  readonly title: string
  readonly before: readonly Block[]
  readonly button: MailLink
  /** Further links, less prominent than the button. */
  readonly links?: readonly MailLink[]
  readonly after?: readonly Block[]
}

type Optional<T> = T | false | null | undefined
export const text = (value: string): Block => ({ type: 'text', text: value })
export const note = (value: string): Block => ({ type: 'note', text: value })
/** Drops the parts that do not apply. */
export const parts = <T>(...all: readonly Optional<T>[]): T[] => all.filter((one): one is T => one !== false && one !== null && one !== undefined)
