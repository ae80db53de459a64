import type { AnyScope, Scope } from '../scopes.ts'

/** The credential kinds that authenticate on the organization API. */
export const merchantCredentials = ['oidc', 'pat', 'oat'] as const
export type MerchantCredential = (typeof merchantCredentials)[number]

/** The credential kinds that authenticate in the customer portal: sessions of the customer or of one of its members. */
export const portalCredentials = ['customer_session', 'member_session'] as const
export type PortalCredential = (typeof portalCredentials)[number]

/**
 * The access rule of an operation. Every operation must declare it, so that no operation is public by omission. A
 * caller needs one of the listed scopes.
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

/** Requires an organization token, personal token, OAuth token or dashboard session with one of the scopes. */
export const merchant = (scopes: ScopeList<Scope>, credentials: readonly MerchantCredential[] = merchantCredentials): Access & { kind: 'merchant' } => ({
  kind: 'merchant',
  scopes: list(scopes),
  credentials,
})

/** Requires a web session of a signed-in user; tokens are rejected. `fresh` requires a sign-in within the last hour. */
export const session = (scopes: ScopeList<AnyScope>, options: { fresh?: boolean } = {}): Access & { kind: 'session' } => ({
  kind: 'session',
  scopes: list(scopes),
  fresh: options.fresh ?? false,
})

/** Requires a portal session of a customer or a member. */
export const portal = (scopes: ScopeList<Scope>, credentials: readonly PortalCredential[] = portalCredentials): Access & { kind: 'portal' } => ({
  kind: 'portal',
  scopes: list(scopes),
  credentials,
})

/** Requires no credential and ignores one that is sent. `anyOrigin` allows cross-origin requests from any site. */
export const openAccess = (options: { anyOrigin?: boolean } = {}): Access & { kind: 'open' } => ({ kind: 'open', anyOrigin: options.anyOrigin ?? false })

/**
 * Requires no credential. Recognises the user by the session cookie of the browser. A request with a bearer token is
 * anonymous, and the handler may read the token itself.
 */
export const visitor = (): Access & { kind: 'visitor' } => ({ kind: 'visitor' })

/**
 * Leaves authentication to the OAuth provider. OAuth 2.0 and OpenID Connect define how clients and tokens authenticate,
 * and the format of errors.
 */
export const protocol = (credentials: readonly 'oidc'[] = []): Access & { kind: 'protocol' } => ({ kind: 'protocol', credentials })
