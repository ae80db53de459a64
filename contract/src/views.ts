import { scopes, type Scope } from './scopes.ts'

/** The languages that pages speak. */
export const localeNames = { en: 'English', de: 'Deutsch' } as const
export type Locale = keyof typeof localeNames
export const locales = Object.keys(localeNames) as readonly Locale[]
export const themes = ['system', 'light', 'dark'] as const
export type Theme = (typeof themes)[number]

/** What every page is shown in: the reader, the place, and the proof that a form came from us. */
export interface Frame {
  readonly locale: Locale
  readonly theme: Theme
  readonly sandbox: boolean
  /** Goes back with every form. */
  readonly csrf: string
  readonly person: { readonly email: string } | null
  /** Where the reader is, to come back to. */
  readonly path: string
  readonly development: boolean
  readonly now: Date
}

export interface OrganizationChoice {
  readonly id: string
  readonly name: string
  readonly slug: string
  readonly chosen: boolean
}

/** How a form went that was sent: shown at the field, and summed up above. */
export type Mishap =
  | 'email_invalid'
  | 'code_wrong'
  | 'code_expired'
  | 'factor_wrong'
  | 'organization_missing'
  | 'organization_single'
  | 'name_missing'
  | 'scopes_missing'
  | 'forever_unconfirmed'
  | 'session_old'
  | 'not_allowed'

export interface TokenLine {
  readonly id: string
  readonly comment: string
  readonly hint: string
  readonly scopes: readonly Scope[]
  readonly created_at: Date
  readonly expires_at: Date | null
  readonly last_used_at: Date | null
}

/** The pages there are, each with what it shows. The server fills them, the pages lay them out. */
export type View =
  | {
      readonly kind: 'sign-in'
      readonly step: 'email' | 'code' | 'factor'
      readonly email: string
      readonly return_to: string
      /** The app that waits behind the sign-in. */
      readonly client_name: string | null
      readonly mishap: Mishap | null
      readonly resent: boolean
      readonly tries_left: number | null
    }
  | {
      readonly kind: 'consent'
      readonly action: string
      readonly client: {
        readonly name: string
        readonly host: string
        readonly verified: boolean
        readonly since: Date
        readonly client_uri: string | null
        readonly tos_uri: string | null
        readonly policy_uri: string | null
      }
      readonly scopes: readonly { readonly scope: Scope; readonly fresh: boolean }[]
      readonly organizations: readonly OrganizationChoice[]
      readonly everywhere: boolean
      readonly single: boolean
      readonly mishap: Mishap | null
    }
  | {
      readonly kind: 'apps'
      readonly apps: readonly {
        readonly client_id: string
        readonly name: string
        readonly verified: boolean
        readonly scopes: readonly Scope[]
        /** Null: everywhere. */
        readonly organizations: readonly string[] | null
        readonly created_at: Date
        readonly last_authorized_at: Date
      }[]
      readonly withdrawn: string | null
    }
  | {
      readonly kind: 'tokens'
      readonly owner: { readonly kind: 'personal' } | { readonly kind: 'organization'; readonly id: string; readonly name: string; readonly slug: string }
      readonly organizations: readonly { readonly id: string; readonly name: string }[]
      readonly tokens: readonly TokenLine[]
      /** Shown once, in the answer to the form that made it. */
      readonly made: { readonly comment: string; readonly token: string } | null
      readonly revoked: boolean
      readonly draft: { readonly comment: string; readonly preset: string; readonly scopes: readonly Scope[]; readonly days: string }
      readonly mishap: Mishap | null
    }
  | {
      readonly kind: 'security'
      readonly state: 'off' | 'pending' | 'on'
      readonly required: boolean
      /** While it is being set up: what the authenticator needs. */
      readonly setup: { readonly secret: string; readonly uri: string } | null
      /** Shown once. */
      readonly recovery_codes: readonly string[] | null
      readonly recovery_left: number
      readonly mishap: Mishap | null
    }
  | { readonly kind: 'mailbox'; readonly letters: readonly { readonly at: Date; readonly to: string; readonly subject: string; readonly text: string }[] }
  | { readonly kind: 'problem'; readonly status: number; readonly error: string; readonly description: string; readonly request_id: string | null }

/** For how many days a token can be made; "forever" besides. */
export const tokenDays = [30, 90, 180, 365] as const

/** Sets of scopes that people ask for together; what only reads is a set of its own. */
export const tokenPresets = {
  read_orders: ['orders:read', 'refunds:read', 'payments:read'],
  read_everything: scopes.filter((scope) => scope.endsWith(':read')),
  webhook_worker: ['webhooks:read', 'webhooks:write', 'events:read'],
  catalog: ['products:read', 'products:write', 'benefits:read', 'benefits:write', 'discounts:read', 'discounts:write', 'meters:read', 'meters:write'],
} as const satisfies Record<string, readonly Scope[]>
