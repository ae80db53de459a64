import type { AnyScope, Scope } from '../scopes.ts'

/** The kinds of credential that can stand for someone on the organization surface. */
export const merchantCredentials = ['oidc', 'pat', 'oat'] as const
export type MerchantCredential = (typeof merchantCredentials)[number]

/** The kinds that can stand for someone in the customer portal: the customer itself, or one of its members. */
export const portalCredentials = ['customer_session', 'member_session'] as const
export type PortalCredential = (typeof portalCredentials)[number]

/**
 * Who may call an operation. The field is required on every operation, so nothing is reachable by omission.
 * Scopes are any-of: one of them is enough.
 */
export type Access =
  | { readonly kind: 'merchant'; readonly scopes: readonly Scope[]; readonly credentials: readonly MerchantCredential[] }
  | { readonly kind: 'session'; readonly scopes: readonly AnyScope[]; readonly fresh: boolean }
  | { readonly kind: 'portal'; readonly scopes: readonly Scope[]; readonly credentials: readonly PortalCredential[] }
  | { readonly kind: 'open'; readonly anyOrigin: boolean }
  | { readonly kind: 'visitor' }
  | { readonly kind: 'protocol'; readonly credentials: readonly 'oidc'[] }

export type ScopeList<S extends string> = S | readonly [S, ...S[]]

const list = <S extends string>(scopes: ScopeList<S>): readonly S[] => (typeof scopes === 'string' ? [scopes] : scopes)

/** The organization surface: organization, personal and OAuth tokens (and the dashboard's own session) that hold a scope. */
export const merchant = (scopes: ScopeList<Scope>, credentials: readonly MerchantCredential[] = merchantCredentials): Access & { kind: 'merchant' } => ({
  kind: 'merchant',
  scopes: list(scopes),
  credentials,
})

/** A signed-in person in their own browser, never a token. `fresh` asks for a sign-in of at most an hour ago. */
export const session = (scopes: ScopeList<AnyScope>, options: { fresh?: boolean } = {}): Access & { kind: 'session' } => ({
  kind: 'session',
  scopes: list(scopes),
  fresh: options.fresh ?? false,
})

/** The customer portal: a customer or a member with a portal session. */
export const portal = (scopes: ScopeList<Scope>, credentials: readonly PortalCredential[] = portalCredentials): Access & { kind: 'portal' } => ({
  kind: 'portal',
  scopes: list(scopes),
  credentials,
})

/** Anyone; a credential that is sent along is ignored. `anyOrigin` lets the pages of any site use it. */
export const open = (options: { anyOrigin?: boolean } = {}): Access & { kind: 'open' } => ({ kind: 'open', anyOrigin: options.anyOrigin ?? false })

/** Anyone; a person who is signed in in this browser is recognised, and a token that the operation itself reads may speak instead. */
export const visitor = (): Access & { kind: 'visitor' } => ({ kind: 'visitor' })

/** Whoever the protocol itself lets in: OAuth 2.0 and OpenID Connect say how a client or a token is presented, and how a refusal reads. */
export const protocol = (credentials: readonly 'oidc'[] = []): Access & { kind: 'protocol' } => ({ kind: 'protocol', credentials })
