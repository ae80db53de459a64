import { getPortalUser, introspectCustomerSession, type Received } from '@bursar/contract'
import { flows, type Flow, type PortalShell } from '@bursar/views'
import { Refused, type Client } from '@bursar/contract/client'
import type { PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { portalToken, problem, sellerOf, type Seller } from '../visits.ts'

/** A visit to the portal with a valid session. */
export interface Visit {
  readonly api: Client
  readonly shell: PortalShell
  readonly call: PageCall
  readonly seller: Seller
  readonly who: Received<typeof getPortalUser>
  readonly session: Received<typeof introspectCustomerSession>
}

/** Reads from the query which action has just succeeded. The value is the key of the confirmation message on this page. */
const doneIn = (query: URLSearchParams): string | null => (/^[a-z_]{1,40}$/.test(query.get('done') ?? '') ? query.get('done') : null)

/** Reads the task (`flow`) that a link opened, from the query or a form. With `section`, accepts only tasks of that portal section. */
export const flowIn = <S extends (typeof flows)[Flow]>(given: URLSearchParams, section?: S): FlowOf<S> | null => {
  const flow = given.get('flow') ?? ''
  return Object.hasOwn(flows, flow) && (section === undefined || flows[flow as Flow] === section) ? (flow as FlowOf<S>) : null
}
type FlowOf<S> = { [F in Flow]: (typeof flows)[F] extends S ? F : never }[Flow]

/** Returns the task that a link opened as a query string, so that it is still known after the sign-in. */
export const withFlow = (flow: Flow | null): string => (flow === null ? '' : `?flow=${flow}`)

/** Returns the first page of the portal: the requested task or the overview for managers, the access page for others. */
export const beginning = ({ seller, reader }: PortalShell, flow: Flow | null): string => {
  const section = !reader.manages ? 'access' : flow === null ? 'overview' : `${flows[flow]}${withFlow(flow)}`
  return `/${seller.slug}/portal/${section}`
}

/**
 * Wraps a portal page. Without a valid session the visitor is redirected to the sign-in of the seller's portal. The page
 * calls the API with the token of the session.
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
      // On 401, the session has ended while the page was rendered. The visitor is sent to the sign-in page.
      if (error instanceof Refused && error.reply.status === 401) return wayIn
      throw error
    }
  }

/** Wraps a page for managers. Other members see a page that explains the restriction. The API rejects their requests as well. */
export const forManagers = (platform: Platform, show: (visit: Visit) => Promise<PageAnswer>) =>
  inPortal(platform, async (visit) =>
    visit.shell.reader.manages ? show(visit) : { status: 403, view: { kind: 'portal-forbidden', shell: visit.shell }, script: true },
  )
