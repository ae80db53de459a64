import { scopes, type Scope } from '@bursar/contract'
import type { Locale } from './frame.ts'
import type { MailKind } from './mails.ts'
import type { ReferenceArea, ReferenceOperation } from './reference.ts'

export interface OrganizationChoice {
  readonly id: string
  readonly name: string
  readonly slug: string
  readonly chosen: boolean
}

/** The error of a submitted form. It is shown at the field and in the summary above. */
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

/** The endpoints that an OAuth client uses. */
export type DocumentedEndpoint = 'discovery' | 'registration' | 'authorization' | 'token' | 'userinfo' | 'introspection' | 'revocation' | 'jwks'

/** The pages of an account: sign-in, consent to apps, tokens and security settings. */
export type AccountView =
  | {
      readonly kind: 'sign-in'
      readonly step: 'email' | 'code' | 'factor'
      readonly email: string
      readonly return_to: string
      /** The app that requested the sign-in. */
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
      /**
       * True if the app was authorized before. If an organization is deselected now, the app's existing tokens lose
       * access to it. If one is added, only tokens from a new sign-in have access to it.
       */
      readonly again: boolean
      readonly mishap: Mishap | null
    }
  | {
      readonly kind: 'apps'
      readonly apps: readonly {
        readonly client_id: string
        readonly name: string
        readonly verified: boolean
        readonly scopes: readonly Scope[]
        /** Null means all organizations. */
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
      /** The new token, shown once in the response to the form that created it. */
      readonly made: { readonly comment: string; readonly token: string } | null
      readonly revoked: boolean
      readonly draft: { readonly comment: string; readonly preset: string; readonly scopes: readonly Scope[]; readonly days: string }
      readonly mishap: Mishap | null
    }
  | {
      readonly kind: 'security'
      readonly state: 'off' | 'pending' | 'on'
      readonly required: boolean
      /** During setup: the data for the authenticator app. */
      readonly setup: { readonly secret: string; readonly uri: string } | null
      /** New recovery codes, which are shown once. Null otherwise. */
      readonly recovery_codes: readonly string[] | null
      readonly recovery_left: number
      /** Number of browsers with a session of this user, including this one. */
      readonly sessions: number
      readonly mishap: Mishap | null
    }
  | {
      readonly kind: 'mailbox'
      readonly letters: readonly {
        readonly at: Date
        readonly to: string
        readonly subject: string
        readonly text: string
        readonly html_path: string | null
      }[]
    }
  /** Samples of all mails, in a language. Only in development. */
  | {
      readonly kind: 'mail-gallery'
      readonly shown: Locale
      readonly mails: readonly { readonly kind: MailKind; readonly subject: string; readonly text: string; readonly path: string }[]
    }
  | {
      readonly kind: 'invitation'
      readonly token: string
      /** Null if the invitation is no longer valid, or belongs to another address. */
      readonly invited: { readonly organization: string; readonly role: string; readonly until: Date } | null
    }
  /** The page for developers: the addresses of the OpenAPI document and the OAuth endpoints. */
  | {
      readonly kind: 'docs'
      readonly openapi: string
      /** The areas with the operations that match the filter. */
      readonly areas: readonly ReferenceArea[]
      readonly filter: string
      /** The number of all operations. */
      readonly total: number
      readonly issuer: string
      readonly endpoints: readonly { readonly name: DocumentedEndpoint; readonly url: string }[]
    }
  /** The reference of the operations of one area. */
  | { readonly kind: 'reference'; readonly area: string; readonly operations: readonly ReferenceOperation[] }

/** The lifetimes in days that the token form offers, besides "forever". */
export const tokenDays = [30, 90, 180, 365] as const

/** Sets of scopes that are often requested together. One of them contains all read-only scopes. */
export const tokenPresets = {
  read_orders: ['orders:read', 'refunds:read', 'payments:read'],
  read_everything: scopes.filter((scope) => scope.endsWith(':read')),
  webhook_worker: ['webhooks:read', 'webhooks:write', 'events:read'],
  catalog: ['products:read', 'products:write', 'benefits:read', 'benefits:write', 'discounts:read', 'discounts:write', 'meters:read', 'meters:write'],
} as const satisfies Record<string, readonly Scope[]>
