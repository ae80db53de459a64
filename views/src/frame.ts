import type { Brand } from './brand.ts'

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
  /** The brand of the seller that the page belongs to. Null on pages of Bursar itself. */
  readonly brand: Brand | null
  /** The public origin of this deployment, for link previews, which need whole addresses. */
  readonly origin: string
  readonly now: Date
  /** Replaces the English texts of the page. Only tests set it. */
  readonly translate?: <T>(english: T) => T
}

/** A validation error of a form: field and reason, as the API reports it. Without a field it concerns the whole form. */
export interface Complaint {
  readonly loc: readonly (string | number)[]
  readonly type: string
  readonly msg: string
  /** After too many requests: the seconds until the next one is allowed. */
  readonly wait_seconds?: number
}

/** The seller that a page belongs to. */
export interface Seller {
  readonly name: string
  readonly slug: string
}

/** The seller that an error page names, with the addresses that lead on. */
export interface PageSeller {
  readonly name: string
  readonly slug: string | null
  readonly website?: string | null
}

/** A form that was not handled, with the fields that the reader filled in. */
export interface UnsentForm {
  readonly action: string
  readonly fields: readonly (readonly [string, string])[]
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
      /** Seconds after which the page goes on by itself: it sends `form` again, or loads its address again. */
      readonly retry_after?: number | null
      readonly form?: UnsentForm | null
      /** True if loading the page again may help. */
      readonly again?: boolean
      readonly seller?: PageSeller | null
      /** True if the reader has no account, so that the page offers no account links. */
      readonly visitor?: boolean
    }
