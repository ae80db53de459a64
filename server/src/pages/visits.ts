import { endCustomerSession, getPortalOrganization, type Received } from '@bursar/contract'
import type { Brand, Complaint, PageSeller, View } from '@bursar/views'
import type { IncomingMessage } from 'node:http'
import { Refused, type Reply } from '@bursar/contract/client'
import type { Outside, PageAnswer, PageCall, Platform, SellerLook } from '../modules/handlers.ts'
import { hostCookie, portalCookiePrefix, readCookie, setCookie } from '../modules/identity/index.ts'

/** Returns the seconds until the next attempt, from the retry-after header. */
export const waitOf = ({ headers }: Reply<unknown>): number => Math.max(1, Math.ceil(Number(headers.get('retry-after') ?? 60)))

/** The longest wait, in seconds, that a page counts down before it goes on by itself. */
const longestCountdown = 120

/**
 * Returns the errors of a response, field by field. An error about the whole request has no field. Throws on a 429 with
 * a short wait: the error page then counts the wait down and sends the form again. A longer wait is an error with its
 * seconds.
 */
export const complaintsOf = (reply: Reply<unknown>): Complaint[] => {
  const { error = 'Error', detail } = (reply.body ?? {}) as { error?: string; detail?: unknown }
  if (reply.status === 429 && waitOf(reply) <= longestCountdown) throw new Refused('a page', reply as Reply<object>)
  const wait = reply.status === 429 ? { wait_seconds: waitOf(reply) } : {}
  return Array.isArray(detail) ? (detail as Complaint[]) : [{ loc: [], type: error, msg: typeof detail === 'string' ? detail : '', ...wait }]
}

/** Builds an error page with its status. Without a seller, the address belongs to none. */
export const problem = (status: number, error: string, seller: PageSeller | null = null): PageAnswer => ({
  status,
  ...(seller === null ? { seller } : {}),
  view: { kind: 'problem', status, error, description: '', request_id: null, visitor: true, seller } satisfies View,
})

/** Returns the response if it is final. Throws on 429 and 5xx, so that a temporary failure does not use up a code or link. */
export const settled = <Body>(reply: Reply<Body>): Reply<Body> => {
  if (reply.status === 429 || reply.status >= 500) throw new Refused('a page', reply as Reply<object>)
  return reply
}

/**
 * Sends the browser to another site by a page with a refresh instead of a redirect. The content security policy forbids
 * redirecting a submitted form to a site that the policy does not list.
 */
export const leaveFor = (to: string): PageAnswer => ({ view: { kind: 'leaving', to }, refresh: to })

/** Returns the body of a success, or undefined. */
export const found = <Body>(reply: Reply<Body>): Body | undefined => (settled(reply).status < 300 ? reply.body : undefined)

export type Seller = Received<typeof getPortalOrganization>['organization']

/** Returns the look of a seller's pages, from an answer of the API. */
export const lookOf = ({ name, slug, brand: { accent_color, ...brand } }: Pick<Seller, 'name' | 'slug' | 'brand'>): SellerLook => ({
  slug,
  brand: { name, accent: accent_color, ...brand } satisfies Brand,
})

/**
 * True if a messenger or a search engine asks for a preview of the link. Browsers say with `sec-fetch-mode` that they
 * navigate. Programs for previews do not, and they keep no cookies.
 */
export const isPreview = ({ headers }: IncomingMessage): boolean => headers['sec-fetch-mode'] === undefined

/** Returns the pictures of a product that pages show, as sources for the content security policy too. */
export const picturesOf = (medias: readonly { readonly public_url: string }[]): string[] =>
  // Characters that separate sources of a policy.
  medias.map(({ public_url }) => public_url.split('?')[0]!.replaceAll(';', '%3B').replaceAll(',', '%2C'))

/** Allows a page to load these pictures. A picture of our own origin needs no permission. */
export const showing = (pictures: readonly (string | null)[]): { outside?: Outside } => {
  const sources = [...new Set(pictures.filter((one) => one !== null))]
  return sources.length === 0 ? {} : { outside: { 'img-src': sources } }
}

/** Gives a page the look of its seller. */
export const branded = (answer: PageAnswer, seller: Pick<Seller, 'name' | 'slug' | 'brand'>): PageAnswer => ({ ...answer, seller: lookOf(seller) })

/** Loads the seller by the slug in the address. */
export const sellerOf = async ({ api, params }: PageCall): Promise<Seller | undefined> =>
  found(await api().send(getPortalOrganization, { params: { slug: params.slug! } }))?.organization

/** Returns the token of this browser's portal session with one seller, if it has one. */
export const portalToken = ({ config }: Platform, request: IncomingMessage, organization_id: string): string | undefined =>
  readCookie(request.headers.cookie, portalCookiePrefix(config) + organization_id)

/**
 * Stores a portal session in the browser, or removes it if the token is null. The previous session of this browser is
 * revoked. Forms in other tabs stay valid: their CSRF token is bound to this browser, and other sites can neither set
 * nor read it. The API checks each submitted form against the session at that time.
 */
export const keepPortal = async (platform: Platform, call: PageCall, organization_id: string, token: string | null, seconds = 3600): Promise<string> => {
  const before = portalToken(platform, call.request, organization_id)
  if (before !== undefined && before !== token) {
    const ended = await call.api(before).send(endCustomerSession, {})
    // Sign-out reports failure if the session could not be revoked. Sign-in ignores such failures.
    if (token === null) settled(ended)
  }
  return setCookie(platform.config, portalCookiePrefix(platform.config) + organization_id, token ?? '', token === null ? 0 : seconds)
}

/**
 * Returns the path of the portal that the URL names, even if no such seller exists. The slug is user input, so it is
 * encoded as one path segment.
 */
export const portalOf = (call: PageCall): string => `/${encodeURIComponent(call.params.slug!)}/portal`

/** Stores the secret of a link in a cookie. The first visit moves the secret from the URL to this cookie. */
export const keptSecret = ({ config }: Platform, what: string) => ({
  read: (request: IncomingMessage): string | undefined => readCookie(request.headers.cookie, hostCookie(config, what)),
  // Stores an empty value if the secret contains characters that have a meaning in a cookie header.
  keep: (value: string, seconds: number): string => setCookie(config, hostCookie(config, what), /^[\w.-]{1,300}$/.test(value) ? value : '', seconds),
  forget: (): string => setCookie(config, hostCookie(config, what), '', 0),
})
