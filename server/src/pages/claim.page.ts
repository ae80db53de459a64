import { claimSeat, getPortalUser, getSeatClaimInfo, listPortalBenefitGrants, requestSeatInvitation, type ClaimState, type Received } from '@bursar/contract'
import type { Page, PageAnswer, PageCall, Platform } from '../modules/handlers.ts'
import { inPortal } from './portal/entering.ts'
import { found, keepPortal, keptSecret, portalOf, portalToken, problem, sellerOf, type Seller } from './visits.ts'

type Info = Received<typeof getSeatClaimInfo>

/** As long as the browser may keep the secret of a link: people read, and go for a coffee. */
const keptFor = 3600

/** Taking a seat: the link shows what it is for, a press takes it, and the page says how far what it gives has come. */
export const claimPages = (platform: Platform): Page[] => {
  const link = keptSecret(platform, 'claim')

  const informed = async (call: PageCall, seller: Seller): Promise<Info | undefined> => {
    const token = link.read(call.request)
    const info = token === undefined ? undefined : found(await call.api().send(getSeatClaimInfo, { params: { invitation_token: token } }))
    return info?.organization_slug === seller.slug ? info : undefined
  }

  /** Who is in this seller's portal with this browser. */
  const present = async (call: PageCall, seller: Seller): Promise<string | null> => {
    const token = portalToken(platform, call.request, seller.id)
    return (token === undefined ? undefined : found(await call.api(token).send(getPortalUser, {})))?.email ?? null
  }

  const show = async (call: PageCall, seller: Seller, asked = false): Promise<PageAnswer> => {
    const here = `/${seller.slug}/portal/claim`
    const info = await informed(call, seller)
    if (!info) return { status: 404, view: { kind: 'claim-unknown', seller }, here }
    const { product_name, customer_email: email, invited_by, benefits, status, can_claim } = info
    const reader = await present(call, seller)
    const mine = reader?.toLowerCase() === email.toLowerCase()
    const states: Record<Info['status'], ClaimState> = {
      pending: can_claim ? 'open' : 'closed',
      claimed: mine ? 'mine' : 'used',
      expired: asked ? 'asked' : 'expired',
      revoked: 'revoked',
    }
    const state = states[status]
    const other = mine ? null : reader
    return { view: { kind: 'claim', seller, state, product_name, email, invited_by, benefits, other }, here }
  }

  const withSeller =
    (handle: (call: PageCall, seller: Seller) => Promise<PageAnswer>) =>
    async (call: PageCall): Promise<PageAnswer> => {
      const seller = await sellerOf(call)
      return seller ? handle(call, seller) : problem(404, 'not_found')
    }

  return [
    {
      method: 'GET',
      path: '/:slug/portal/claim',
      signedIn: false,
      handle: async (call) => {
        // It leaves the address first, whatever else is wrong with that.
        const token = call.query.get('token')
        return token === null ? withSeller(show)(call) : { redirect: `${portalOf(call)}/claim`, cookies: [link.keep(token, keptFor)] }
      },
    },
    {
      method: 'POST',
      path: '/:slug/portal/claim',
      signedIn: false,
      handle: withSeller(async (call, seller) => {
        const token = link.read(call.request)
        // A link of another seller is as unknown here as one that never was.
        if (token === undefined || !(await informed(call, seller))) return show(call, seller)
        const claimed = found(await call.api().send(claimSeat, { body: { invitation_token: token } }))
        // Whatever came in between, the page says it.
        if (!claimed) return show(call, seller)
        return { redirect: `/${seller.slug}/portal/claim/ready`, cookies: [await keepPortal(platform, call, seller.id, claimed.customer_session_token)] }
      }),
    },
    {
      method: 'POST',
      path: '/:slug/portal/claim/ask',
      signedIn: false,
      handle: withSeller(async (call, seller) => {
        const token = link.read(call.request)
        if (token !== undefined) found(await call.api().send(requestSeatInvitation, { body: { invitation_token: token } }))
        return show(call, seller, true)
      }),
    },
    {
      method: 'GET',
      path: '/:slug/portal/claim/ready',
      signedIn: false,
      handle: inPortal(platform, async ({ api, call, seller, who }) => {
        const through = { redirect: `/${seller.slug}/portal/access?done=claimed`, cookies: [link.forget()] }
        const info = await informed(call, seller)
        if (!info || info.benefits.length === 0) return through
        const benefit_id = info.benefits.map(({ id }) => id)
        const own = who.member_id === null ? {} : { member_id: [who.member_id] }
        const { items } = await api.call(listPortalBenefitGrants, { query: { benefit_id, ...own, limit: 100 } })
        const benefits = info.benefits.map(({ id, description }) => {
          const grants = items.filter((grant) => grant.benefit_id === id)
          const stuck = grants.some(({ error }) => error !== null)
          return { id, description, state: grants.some(({ is_granted }) => is_granted) ? ('ready' as const) : stuck ? ('stuck' as const) : ('waits' as const) }
        })
        // What waits for its holder is shown where it can be seen to.
        if (benefits.every(({ state }) => state !== 'waits')) return through
        return { view: { kind: 'claim-ready', seller, product_name: info.product_name, benefits } }
      }),
    },
  ]
}
