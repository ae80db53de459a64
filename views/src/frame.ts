/** The languages of the pages. */
export const localeNames = { en: 'English', de: 'Deutsch' } as const
export type Locale = keyof typeof localeNames
export const locales = Object.keys(localeNames) as readonly Locale[]
export const themes = ['system', 'light', 'dark'] as const
export type Theme = (typeof themes)[number]

/** The context of every page: reader, locale, current path and CSRF token. */
export interface Frame {
  readonly locale: Locale
  readonly theme: Theme
  readonly sandbox: boolean
  /** CSRF token. Every form sends it back. */
  readonly csrf: string
  readonly person: { readonly email: string } | null
  /** The path of the current page, so that forms and links can return to it. */
  readonly path: string
  readonly development: boolean
  readonly now: Date
}

/** A validation error of a form: field and reason, as the API reports it. Without a field it concerns the whole form. */
export interface Complaint {
  readonly loc: readonly (string | number)[]
  readonly type: string
  readonly msg: string
}

/** The seller that a page belongs to. */
export interface Seller {
  readonly name: string
  readonly slug: string
}

/** A test card of the sandbox. */
export interface TestCardLine {
  readonly token: string
  readonly type: string
  readonly brand: string | null
  readonly last4: string | null
  readonly says: string
}

/** The result of inviting one address to a seat, or of a text that is not an address. */
export interface Invited {
  readonly address: string
  readonly result: 'invited' | 'has_one' | 'no_address' | 'no_seat' | 'not_asked' | 'refused'
  /** The API error that explains the result, if there is one. */
  readonly why: Complaint | null
}

/** The results of inviting a pasted list of addresses, and the reason if it stopped early. */
export interface Invitations {
  readonly people: readonly Invited[]
  readonly halted: 'full' | 'at_once' | 'wait' | 'signed_out' | null
  /** With `wait`: the seconds until the next attempt may succeed. */
  readonly wait_seconds: number | null
}

/** The pages that every surface can answer with. */
export type FrameView =
  /** Redirects the browser automatically. A link is shown for browsers that do not follow the redirect. */
  | { readonly kind: 'leaving'; readonly to: string }
  | {
      readonly kind: 'problem'
      readonly status: number
      readonly error: string
      readonly description: string
      readonly request_id: string | null
      /** Seconds after which the page reloads by itself. */
      readonly retry_after?: number | null
      /** True if the reader has no account, so that the page offers no account links. */
      readonly visitor?: boolean
    }
