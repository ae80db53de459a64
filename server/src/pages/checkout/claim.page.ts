import { claimSeat, getPortalUser, getSeatClaimInfo, listPortalBenefitGrants, requestSeatInvitation, type Received } from '@bursar/contract'
import type { ClaimState } from '@bursar/views'
import type { Page, PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { inPortal } from '../portal/entering.ts'
import { branded, found, isPreview, keepPortal, keptSecret, picturesOf, portalOf, portalToken, problem, sellerOf, showing, type Seller } from '../visits.ts'

type Info = Received<typeof getSeatClaimInfo>

/** Seconds for which the browser keeps the secret of an invitation link. An hour leaves time for reading the page. */
const keptFor = 3600

/** The pages for claiming a seat. The link shows the offer, a button accepts it, and the last page shows the progress of its benefits. */
export const claimPages = (platform: Platform): Page[] => {
  const link = keptSecret(platform, 'claim')

  const informed = async (call: PageCall, seller: Seller): Promise<Info | undefined> => {
    const token = link.read(call.request)
    const info = token === undefined ? undefined : found(await call.api().send(getSeatClaimInfo, { params: { invitation_token: token } }))
    return info?.organization_slug === seller.slug ? info : undefined
  }

  /** Returns the e-mail address of this browser's portal session with the seller. */
  const present = async (call: PageCall, seller: Seller): Promise<string | null> => {
    const token = portalToken(platform, call.request, seller.id)
    return (token === undefined ? undefined : found(await call.api(token).send(getPortalUser, {})))?.email ?? null
  }

  const show = async (call: PageCall, seller: Seller, asked = false): Promise<PageAnswer> => {
    const here = `/${seller.slug}/portal/claim`
    const info = await informed(call, seller)
    if (!info) return { status: 404, view: { kind: 'claim-unknown', seller }, here }
    const { product_name, product_cover_url, customer_email: email, invited_by, benefits, status, can_claim } = info
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
    const [cover = null] = product_cover_url === null ? [] : picturesOf([{ public_url: product_cover_url }])
    return { view: { kind: 'claim', seller, state, product_name, cover, email, invited_by, benefits, other }, here, ...showing([cover]) }
  }

  const withSeller =
    (handle: (call: PageCall, seller: Seller) => Promise<PageAnswer>) =>
    async (call: PageCall): Promise<PageAnswer> => {
      const seller = await sellerOf(call)
      return seller ? branded(await handle(call, seller), seller) : problem(404, 'not_found')
    }

  return [
    {
      method: 'GET',
      path: '/:slug/portal/claim',
      signedIn: false,
      handle: async (call) => {
        // Moves the invitation token from the URL to a cookie before it is checked. No token stays in the address bar.
        const token = call.query.get('token')
        if (token === null) return withSeller(show)(call)
        const [to, cookies] = [`${portalOf(call)}/claim`, [link.keep(token, keptFor)]]
        if (!isPreview(call.request)) return { redirect: to, cookies }
        return withSeller(async (_, { name }) => ({ view: { kind: 'link-preview', seller: name, product: null, to }, refresh: to, cookies }))(call)
      },
    },
    {
      method: 'POST',
      path: '/:slug/portal/claim',
      signedIn: false,
      handle: withSeller(async (call, seller) => {
        const token = link.read(call.request)
        // An invitation of another seller is treated as unknown.
        if (token === undefined || !(await informed(call, seller))) return show(call, seller)
        const claimed = found(await call.api().send(claimSeat, { body: { invitation_token: token } }))
        // The seat may have been claimed or revoked meanwhile. The page shows its current state.
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
        // Redirects to the portal's access page if no benefit is in progress. That page shows benefits that need an action of their holder.
        if (benefits.every(({ state }) => state !== 'waits')) return through
        return { view: { kind: 'claim-ready', seller, product_name: info.product_name, benefits } }
      }),
    },
  ]
}
