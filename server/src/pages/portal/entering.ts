import { flows, getPortalUser, introspectCustomerSession, type Flow, type PortalShell, type Received } from '@bursar/contract'
import { Refused, type Client } from '@bursar/contract/client'
import type { PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { portalToken, problem, sellerOf, type Seller } from '../visits.ts'

/** A visit to the portal by somebody who is in it. */
export interface Visit {
  readonly api: Client
  readonly shell: PortalShell
  readonly call: PageCall
  readonly seller: Seller
  readonly who: Received<typeof getPortalUser>
  readonly session: Received<typeof introspectCustomerSession>
}

/** What a form of the portal can have done: a word of the catalogue, carried to the page that is shown next. */
const doneIn = (query: URLSearchParams): string | null => (/^[a-z_]{1,40}$/.test(query.get('done') ?? '') ? query.get('done') : null)

/** The task that a link or form asks for, if it is one; of one section, if it is named. */
export const flowIn = <S extends (typeof flows)[Flow]>(given: URLSearchParams, section?: S): FlowOf<S> | null => {
  const flow = given.get('flow') ?? ''
  return Object.hasOwn(flows, flow) && (section === undefined || flows[flow as Flow] === section) ? (flow as FlowOf<S>) : null
}
type FlowOf<S> = { [F in Flow]: (typeof flows)[F] extends S ? F : never }[Flow]

/** The same as the end of an address, so that it survives the way in. */
export const withFlow = (flow: Flow | null): string => (flow === null ? '' : `?flow=${flow}`)

/** Where the portal begins: at the task that was asked for, at the overview, or for whoever does not manage, at what is theirs. */
export const beginning = ({ seller, reader }: PortalShell, flow: Flow | null): string => {
  const section = !reader.manages ? 'access' : flow === null ? 'overview' : `${flows[flow]}${withFlow(flow)}`
  return `/${seller.slug}/portal/${section}`
}

/**
 * A page of the portal: whoever has no session, or an ended one, is shown the way in instead, and comes back to the
 * seller's portal. What the page asks, it asks with the session's own token.
 */
export const inPortal =
  (platform: Platform, show: (visit: Visit) => Promise<PageAnswer>) =>
  async (call: PageCall): Promise<PageAnswer> => {
    const seller = await sellerOf(call)
    if (!seller) return problem(404, 'not_found')
    const { slug, id, name: seller_name } = seller
    const wayIn = { redirect: `/${slug}/portal/sign-in${withFlow(flowIn(call.query))}` }
    const token = portalToken(platform, call.request, id)
    if (token === undefined) return wayIn
    const api = call.api(token)
    const [who, session] = await Promise.all([api.send(getPortalUser, {}), api.send(introspectCustomerSession, {})])
    const failed = [who, session].find(({ status }) => status !== 200)
    if (failed?.status === 401) return wayIn
    if (failed) throw new Refused('the portal', failed as never)
    const { email, name, role, type } = who.body
    const shell: PortalShell = {
      seller: { id, name: seller_name, slug },
      reader: { email, name, role, manages: type === 'customer' || role !== 'member' },
      return_url: session.body.return_url,
      flow: null,
      done: doneIn(call.query),
      complaints: [],
    }
    try {
      return await show({ api, shell, call, seller, who: who.body, session: session.body })
    } catch (error) {
      // It ended while the page was made.
      if (error instanceof Refused && error.reply.status === 401) return wayIn
      throw error
    }
  }

/** A page for whoever manages; anybody else is told so, in words. What they may not see the API would refuse them as well. */
export const forManagers = (platform: Platform, show: (visit: Visit) => Promise<PageAnswer>) =>
  inPortal(platform, async (visit) =>
    visit.shell.reader.manages ? show(visit) : { status: 403, view: { kind: 'portal-forbidden', shell: visit.shell }, script: true },
  )
