import { authenticatePortalCode, checkEmailUpdate, exchangePortalCode, requestPortalCode, verifyEmailUpdate } from '@bursar/contract'
import type { Flow, View } from '@bursar/views'
import type { Page, PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { portalCookiePrefix, readCookie } from '../../modules/identity/index.ts'
import { branded, found, keepPortal, keptSecret, leaveFor, portalOf, portalToken, problem, sellerOf, settled, type Seller } from '../visits.ts'
import { beginning, flowIn, inPortal, wantedPage, withFlow } from './entering.ts'

type SignIn = Extract<View, { kind: 'portal-sign-in' }>

/** Seconds for which the browser keeps the code of a link. Equals the lifetime of the session that the code opens. */
const keptFor = 3600

/** Forwards the browser's cookies. The API uses them to recognise the browser that requested a code or signed in before. */
const withCookies = ({ request }: PageCall): Record<string, string> => (request.headers.cookie === undefined ? {} : { cookie: request.headers.cookie })

/** The pages for signing in to the portal and out of it. */
export const entryPages = (platform: Platform): Page[] => {
  const [entry, change, proved] = [keptSecret(platform, 'portal_entry'), keptSecret(platform, 'email_change'), keptSecret(platform, 'portal_code')]

  const door =
    (handle: (call: PageCall, seller: Seller, base: string) => Promise<PageAnswer>) =>
    async (call: PageCall): Promise<PageAnswer> => {
      const seller = await sellerOf(call)
      return seller ? branded(await handle(call, seller, `/${seller.slug}/portal`), seller) : problem(404, 'not_found')
    }

  const signIn = (seller: Seller, flow: Flow | null, changes: Partial<SignIn> = {}): PageAnswer => ({
    view: { kind: 'portal-sign-in', seller, step: 'email', email: '', customers: [], why: null, mishap: null, resent: false, flow, ...changes },
    here: `/${seller.slug}/portal/sign-in${withFlow(flow)}`,
  })

  /** Returns the remaining seconds of a portal session, for the lifetime of its cookie. */
  const secondsUntil = (moment: string): number => Math.max(1, Math.floor((Date.parse(moment) - platform.clock.wall().getTime()) / 1000))

  const askForCode = async (call: PageCall, seller: Seller): Promise<PageAnswer> => {
    const [email, flow] = [(call.form.get('email') ?? '').trim(), flowIn(call.form)]
    const answer = await call.api().send(requestPortalCode, { body: { organization_id: seller.id, email }, headers: withCookies(call) })
    if (settled(answer).status === 202)
      return { ...signIn(seller, flow, { step: 'code', email, resent: call.form.get('resend') === '1' }), cookies: answer.headers.getSetCookie() }
    return { ...signIn(seller, flow, { email, mishap: 'email' }), status: answer.status }
  }

  const trade = async (call: PageCall, seller: Seller, base: string): Promise<PageAnswer> => {
    const [email, typed, customer_id] = ['email', 'code', 'customer_id'].map((name) => (call.form.get(name) ?? '').trim())
    // A reader who chooses a customer has typed the code on the previous page, which stored it in a cookie.
    const code = typed || proved.read(call.request)
    const flow = flowIn(call.form)
    const body = { organization_id: seller.id, email: email!, code: code ?? '', ...(customer_id === '' ? {} : { customer_id: customer_id! }) }
    const answer = await call.api().send(authenticatePortalCode, { body, headers: withCookies(call) })
    if (settled(answer).status !== 200) return { ...signIn(seller, flow, { step: 'code', email: email!, mishap: 'code' }), status: answer.status }
    const { token, expires_at, customers } = answer.body
    if (token === null || expires_at === null)
      return { ...signIn(seller, flow, { step: 'choose', email: email!, customers }), cookies: [proved.keep(code ?? '', 900)] }
    const session = await keepPortal(platform, call, seller.id, token, secondsUntil(expires_at))
    return { redirect: `${base}${withFlow(flow)}`, cookies: [session, ...answer.headers.getSetCookie(), proved.forget()] }
  }

  const showChange = door(async (call, seller) => {
    const token = change.read(call.request)
    const works = token !== undefined && found(await call.api().send(checkEmailUpdate, { query: { token } })) !== undefined
    return { view: { kind: 'portal-email', seller, state: works ? 'open' : 'over' } }
  })

  const wanted = wantedPage(platform)
  const begin = inPortal(platform, async ({ shell, call, seller }) => {
    const flow = flowIn(call.query)
    const page = flow === null ? wanted.read(call, seller, shell.reader.manages) : undefined
    if (page === undefined) return { redirect: beginning(shell, flow) }
    // A file may be on another host, to which the content security policy of the sign-in form allows no redirect.
    const answer = page.isFile ? leaveFor(new URL(page.path, platform.config.public_url).href) : { redirect: page.path }
    return { ...answer, cookies: [wanted.forget()] }
  })

  return [
    {
      method: 'GET',
      path: '/:slug/portal',
      signedIn: false,
      handle: async (call) => {
        const code = call.query.get('code')
        if (code === null) return begin(call)
        return { redirect: `${portalOf(call)}/enter${withFlow(flowIn(call.query))}`, cookies: [entry.keep(code, keptFor)] }
      },
    },
    {
      method: 'GET',
      path: '/:slug/portal/enter',
      signedIn: false,
      handle: door(async (call, seller, base) =>
        entry.read(call.request) === undefined
          ? { redirect: `${base}${withFlow(flowIn(call.query))}` }
          : // A reader who already has a session decides whether to replace it with the session of the link.
            {
              view: { kind: 'portal-enter', seller, flow: flowIn(call.query), pressed: portalToken(platform, call.request, seller.id) === undefined },
              script: true,
            },
      ),
    },
    {
      method: 'POST',
      path: '/:slug/portal/enter',
      signedIn: false,
      handle: door(async (call, seller, base) => {
        const [code, flow] = [entry.read(call.request) ?? '', flowIn(call.form)]
        const answer = code === '' ? undefined : await call.api().send(exchangePortalCode, { body: { code } })
        const opened = answer && found(answer)
        const [given = ''] = answer?.headers.getSetCookie() ?? []
        const token = readCookie(given.split(';')[0], portalCookiePrefix(platform.config) + seller.id)
        // An expired link leads to the sign-in page instead of an error page, because the reader can sign in by e-mail.
        if (!opened || token === undefined) return { redirect: `${base}/sign-in?why=link${flow === null ? '' : `&flow=${flow}`}`, cookies: [entry.forget()] }
        return {
          redirect: `${base}${withFlow(flow)}`,
          cookies: [await keepPortal(platform, call, seller.id, token, secondsUntil(opened.expires_at)), entry.forget()],
        }
      }),
    },
    {
      method: 'GET',
      path: '/:slug/portal/sign-in',
      signedIn: false,
      handle: door(async (call, seller) => {
        const why = call.query.get('why')
        return signIn(seller, flowIn(call.query), { why: why === 'link' || why === 'out' ? why : null })
      }),
    },
    {
      method: 'POST',
      path: '/:slug/portal/sign-in',
      signedIn: false,
      handle: door((call, seller, base) => (call.form.get('step') === 'code' ? trade(call, seller, base) : askForCode(call, seller))),
    },
    {
      method: 'POST',
      path: '/:slug/portal/sign-out',
      signedIn: false,
      handle: door(async (call, seller, base) => ({ redirect: `${base}/sign-in?why=out`, cookies: [await keepPortal(platform, call, seller.id, null)] })),
    },
    {
      method: 'GET',
      path: '/:slug/portal/email',
      signedIn: false,
      handle: async (call) => {
        const given = call.query.get('token')
        if (given !== null) return { redirect: `${portalOf(call)}/email`, cookies: [change.keep(given, keptFor)] }
        return showChange(call)
      },
    },
    {
      method: 'POST',
      path: '/:slug/portal/email',
      signedIn: false,
      handle: door(async (call, seller, base) => {
        const token = change.read(call.request) ?? ''
        const answer = settled(await call.api().send(verifyEmailUpdate, { body: { token } }))
        const seen = (state: 'over' | 'taken' | 'done'): PageAnswer => ({ view: { kind: 'portal-email', seller, state }, cookies: [change.forget()] })
        if (answer.status !== 200) return seen(answer.status === 422 ? 'taken' : 'over')
        // An empty token means that the confirmed address belongs to no member, so the link does not open the portal.
        if (answer.body.token === '') return seen('done')
        return { redirect: `${base}/account?done=email_changed`, cookies: [await keepPortal(platform, call, seller.id, answer.body.token), change.forget()] }
      }),
    },
  ]
}
