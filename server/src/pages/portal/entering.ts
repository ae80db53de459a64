import { getPortalUsage, getPortalUser, introspectCustomerSession, type Received } from '@bursar/contract'
import { flows, type Flow, type PortalShell } from '@bursar/views'
import { Refused, type Client } from '@bursar/contract/client'
import type { PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { branded, found, keptSecret, picturesOf, portalToken, problem, sellerOf, showing, type Seller } from '../visits.ts'

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

/** The pages that mails link: an order, its PDFs and a download. A reader who must sign in first is led back to them. */
const wantedPages: readonly { readonly name: string; readonly pattern: RegExp; readonly path: (id: string, benefit?: string) => string }[] = [
  { name: 'order', pattern: /^\/orders\/([0-9a-f-]{36})$/, path: (id) => `/orders/${id}` },
  { name: 'invoice', pattern: /^\/orders\/([0-9a-f-]{36})\/invoice$/, path: (id) => `/orders/${id}/invoice` },
  { name: 'receipt', pattern: /^\/orders\/([0-9a-f-]{36})\/receipt$/, path: (id) => `/orders/${id}/receipt` },
  { name: 'download', pattern: /^\/download\?id=([0-9a-f-]{36})&benefit=([0-9a-f-]{36})$/, path: (id, benefit) => `/download?id=${id}&benefit=${benefit}` },
]

/** Keeps the page that a visitor wanted to see before signing in. */
export const wantedPage = (platform: Platform) => {
  const kept = keptSecret(platform, 'portal_wanted')
  return {
    /** Returns the cookie that keeps the page. Empty for other pages. */
    keep: (url: string): string[] => {
      const [, slug, rest = ''] = /^\/([\w-]+)\/portal(\/.*)$/.exec(url) ?? []
      return wantedPages.flatMap(({ name, pattern }) => {
        const found = pattern.exec(rest)
        return found ? [kept.keep([slug, name, ...found.slice(1)].join('.'), 900)] : []
      })
    },
    /** Returns the page of this seller that the visitor wanted to see. People who do not manage the purchase only have downloads. */
    read: (call: PageCall, { slug }: { slug: string }, manages: boolean): { path: string; isFile: boolean } | undefined => {
      const [of, name, id = '', benefit] = kept.read(call.request)?.split('.') ?? []
      const wanted = of === slug ? wantedPages.find((one) => one.name === name) : undefined
      const path = wanted?.path(id, benefit)
      if (!wanted || path === undefined || !wanted.pattern.test(path) || (!manages && name !== 'download')) return undefined
      return { path: `/${slug}/portal${path}`, isFile: name !== 'order' }
    },
    forget: () => kept.forget(),
  }
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
    const wayIn = {
      redirect: `/${slug}/portal/sign-in${withFlow(flowIn(call.query))}`,
      cookies: call.request.method === 'GET' ? wantedPage(platform).keep(call.request.url ?? '') : [],
    }
    const token = portalToken(platform, call.request, id)
    if (token === undefined) return wayIn
    const api = call.api(token)
    const [who, session, usage] = await Promise.all([
      api.send(getPortalUser, {}),
      api.send(introspectCustomerSession, {}),
      // The API refuses plain members. They see no usage.
      seller.customer_portal_settings.usage.show ? api.send(getPortalUsage, { query: { days: 0 } }) : undefined,
    ])
    const failed = [who, session].find(({ status }) => status !== 200)
    if (failed?.status === 401) return wayIn
    if (failed) throw new Refused('the portal', failed as never)
    const { email, name, role, type, has_team } = who.body
    const shell: PortalShell = {
      seller: { id, name: seller_name, slug },
      reader: { email, name, role, manages: type === 'customer' || role !== 'member' },
      has_team,
      has_usage: usage !== undefined && (found(usage)?.meters.length ?? 0) > 0,
      return_url: session.body.return_url,
      flow: null,
      done: doneIn(call.query),
      complaints: [],
    }
    try {
      const answer = await show({ api, shell, call, seller, who: who.body, session: session.body })
      return branded('view' in answer ? { ...answer, ...picturesOn(answer) } : answer, seller)
    } catch (error) {
      // On 401, the session has ended while the page was rendered. The visitor is sent to the sign-in page.
      if (error instanceof Refused && error.reply.status === 401) return wayIn
      throw error
    }
  }

/** Allows the pictures of the products that the page shows, beside what the page allows itself. */
const picturesOn = ({ view, outside }: Extract<PageAnswer, { view: unknown }>) => {
  const plans = 'plans' in view ? view.plans : []
  const covers = plans.flatMap(({ subscription }) => picturesOf(subscription.product.medias).slice(0, 1))
  return { outside: { ...outside, ...showing(covers).outside } }
}

/** Wraps a page for managers. Other members see a page that explains the restriction. The API rejects their requests as well. */
export const forManagers = (platform: Platform, show: (visit: Visit) => Promise<PageAnswer>) =>
  inPortal(platform, async (visit) =>
    visit.shell.reader.manages ? show(visit) : { status: 403, view: { kind: 'portal-forbidden', shell: visit.shell }, script: true },
  )
