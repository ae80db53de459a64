import { endCustomerSession, getPortalOrganization, type Complaint, type Received, type View } from '@bursar/contract'
import type { IncomingMessage } from 'node:http'
import { Refused, type Reply } from '@bursar/contract/client'
import type { PageAnswer, PageCall, Platform } from '../modules/handlers.ts'
import { hostCookie, portalCookiePrefix, readCookie, setCookie } from '../modules/identity/index.ts'

/** What the API found wrong, field by field; a refusal as a whole concerns no field. */
export const complaintsOf = ({ body }: Reply<unknown>): Complaint[] => {
  const { error = 'Error', detail } = (body ?? {}) as { error?: string; detail?: unknown }
  return Array.isArray(detail) ? (detail as Complaint[]) : [{ loc: [], type: error, msg: typeof detail === 'string' ? detail : '' }]
}

/** A page that says what did not work, with the status that says the same. */
export const problem = (status: number, error: string, description = ''): PageAnswer => ({
  status,
  view: { kind: 'problem', status, error, description, request_id: null, visitor: true } satisfies View,
})

/** An answer for good; one that only says to come back later is passed on as it is: what was asked with is not spent. */
export const settled = <Body>(reply: Reply<Body>): Reply<Body> => {
  if (reply.status === 429 || reply.status >= 500) throw new Refused('a page', reply as Reply<object>)
  return reply
}

/** To another site, which may lead on to others: by a page of ours, for a form may not be led through sites that it does not name. */
export const leaveFor = (to: string): PageAnswer => ({ view: { kind: 'leaving', to }, refresh: to })

/** What the API has for whoever asks, or nothing. */
export const found = <Body>(reply: Reply<Body>): Body | undefined => (settled(reply).status < 300 ? reply.body : undefined)

export type Seller = Received<typeof getPortalOrganization>['organization']

/** The seller whose page it is, by the name in the address. */
export const sellerOf = async ({ api, params }: PageCall): Promise<Seller | undefined> =>
  found(await api().send(getPortalOrganization, { params: { slug: params.slug! } }))?.organization

/** The portal session of this browser with one seller, if it has one. */
export const portalToken = ({ config }: Platform, request: IncomingMessage, organization_id: string): string | undefined =>
  readCookie(request.headers.cookie, portalCookiePrefix(config) + organization_id)

/**
 * Puts a portal session into the browser, or with no token takes it out. Whoever was here before has left: their session
 * is not to lie about. The forms of other tabs still count: their proof is bound to this browser, no other site can set
 * or read it, and what a form may do is asked of whoever is here when it is sent.
 */
export const keepPortal = async (platform: Platform, call: PageCall, organization_id: string, token: string | null, seconds = 3600): Promise<string> => {
  const before = portalToken(platform, call.request, organization_id)
  if (before !== undefined && before !== token) {
    const ended = await call.api(before).send(endCustomerSession, {})
    // Nobody is told that they are out while their session goes on; whoever comes in comes in.
    if (token === null) settled(ended)
  }
  return setCookie(platform.config, portalCookiePrefix(platform.config) + organization_id, token ?? '', token === null ? 0 : seconds)
}

/** Where the portal that was asked for would be, if there is one: the name is anybody's, and stays one part of the address. */
export const portalOf = (call: PageCall): string => `/${encodeURIComponent(call.params.slug!)}/portal`

/** A secret of a link, which leaves the address at the first visit and waits in the browser, under a name of its own. */
export const keptSecret = ({ config }: Platform, what: string) => ({
  read: (request: IncomingMessage): string | undefined => readCookie(request.headers.cookie, hostCookie(config, what)),
  // What could be read as more than a value is none of ours.
  keep: (value: string, seconds: number): string => setCookie(config, hostCookie(config, what), /^[\w.-]{1,300}$/.test(value) ? value : '', seconds),
  forget: (): string => setCookie(config, hostCookie(config, what), '', 0),
})
