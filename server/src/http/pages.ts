import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { connect } from '@bursar/contract/client'
import { accentStyle, locales, type Frame, type Locale, type Theme, type View } from '@bursar/views'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { anonymous, type Anonymous, type UserActor } from '../kernel/actors.ts'
import { networkOf } from '../kernel/networks.ts'
import { randomText, sameText, Secret } from '../kernel/secrets.ts'
import type { Outside, Page, PageAnswer, Platform, SellerLook } from '../modules/handlers.ts'
import type { AuditContext } from '../platform/audit/audit.ts'
import type { Transact } from '../platform/postgres/postgres.ts'
import { cookieName, hostCookie, personBehind, protocolPaths, readCookie, setCookie } from '../modules/identity/index.ts'
import type { AuthContext } from './authenticate.ts'
import type { Budgets } from './budget.ts'
import { openPageBudgets, pageOfCall, type PageBudget } from './budget-pages.ts'
import { failedPage, problemView } from './page-failures.ts'
import { isErrorPage, named, openSellers, type FindSellerLook } from './page-sellers.ts'

/** The renderer of the web package: takes a view and a frame, returns HTML. */
export type Render = (view: View, frame: Frame) => string

export interface PagesOptions {
  readonly platform: Platform
  readonly render: Render
  readonly stylesheet: string
  readonly script: string
  /** The script that connects a page to the payment processor's own form. */
  readonly processorScript: string
  readonly icon: (sandbox: boolean) => string
  /** The font files, by the name under which stylesheet and pages refer to them. */
  readonly fonts: Readonly<Record<string, Buffer>>
  readonly findSellerLook: FindSellerLook
  /** The files of the dashboard, by their URL. */
  readonly dashboardFiles: Readonly<Record<string, PageAsset>>
}

/** A file that pages load, with the compressed forms that the build has made. */
export interface PageAsset {
  readonly type: string
  readonly text: string | Buffer
  readonly br?: Buffer
  readonly gz?: Buffer
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The budget of this page view, and of the calls of the API that it makes. */
    pageBudget: PageBudget | null
  }
}

interface Showing {
  readonly actor?: UserActor | Anonymous
  readonly leadsTo?: readonly string[]
  readonly locales?: string
  readonly here?: string
  readonly cookies?: readonly string[]
  readonly script?: boolean
  readonly trustedTypes?: boolean
  readonly outside?: Outside
  readonly seller?: SellerLook | null | undefined
}

export interface Shown {
  readonly html: string
  readonly headers: Record<string, string>
}

/** Renders pages in the reader's language and theme, with a content security policy and a CSRF token for their forms. */
export const openPages = ({ platform, render, stylesheet, script: program, processorScript, icon, fonts, findSellerLook, dashboardFiles }: PagesOptions) => {
  const { config, hasher, clock } = platform
  const sandbox = config.environment === 'sandbox'
  const nameOf = (text: string | Buffer) => createHash('sha256').update(text).digest('base64url').slice(0, 12)
  const fontPaths = Object.entries(fonts).map(([name, bytes]) => ({ name: `/assets/${name}`, path: `/assets/${nameOf(bytes)}.woff2`, bytes }))
  const withFonts = (text: string) => fontPaths.reduce((whole, { name, path }) => whole.replaceAll(name, path), text)
  const styles = withFonts(stylesheet)
  const files = Object.entries(dashboardFiles).map(([url, file]): [string, PageAsset] => {
    if (!file.type.startsWith('text/css')) return [url, file]
    const text = Buffer.from(withFonts(file.text.toString()))
    return [url, { type: file.type, text, br: brotliCompressSync(text), gz: gzipSync(text) }]
  })
  const [style, script, processor] = [`/assets/${nameOf(styles)}.css`, `/assets/${nameOf(program)}.js`, `/assets/${nameOf(processorScript)}.js`]
  const cookies = { form: hostCookie(config, 'form'), theme: hostCookie(config, 'theme'), locale: hostCookie(config, 'locale') }

  /** Computes the CSRF token of a form. It binds the form to the browser and to the session in which the form was shown. */
  const proofFor = (request: IncomingMessage, form: string, session = readCookie(request.headers.cookie, cookieName(config)) ?? '') =>
    hasher.hash(new Secret(`form:${form}:${session}`))

  const languageIn = (request: IncomingMessage, wished: string) => localeOf(request, readCookie(request.headers.cookie, cookies.locale), wished)

  const sellers = openSellers(platform, findSellerLook)
  return {
    cookies,
    localeOf: languageIn,
    /** The sellers of the pages that were shown, for error pages. */
    sellers,
    assets: {
      [style]: { type: 'text/css; charset=utf-8', text: styles },
      [script]: { type: 'text/javascript; charset=utf-8', text: program },
      [processor]: { type: 'text/javascript; charset=utf-8', text: processorScript },
      '/favicon.svg': { type: 'image/svg+xml', text: icon(sandbox) },
      ...Object.fromEntries(fontPaths.map(({ path, bytes }) => [path, { type: 'font/woff2', text: bytes }])),
      ...Object.fromEntries(files),
    } as Readonly<Record<string, PageAsset>>,
    proves: (request: IncomingMessage, given: string): boolean => {
      const form = readCookie(request.headers.cookie, cookies.form)
      return form !== undefined && sameText(proofFor(request, form), given)
    },
    show: (
      request: IncomingMessage,
      view: View,
      {
        actor = anonymous,
        leadsTo = [],
        locales: wished = '',
        here,
        cookies: setting = [],
        script: scripted = false,
        trustedTypes = false,
        outside = {},
        seller,
      }: Showing = {},
    ): Shown => {
      const brand = seller?.brand ?? null
      // Cookies that the response sets are valid for this page already.
      const set = setting.map((line) => line.split(';')[0]).join('; ')
      const preference = (name: string) => readCookie(set, name) ?? readCookie(request.headers.cookie, name)
      const form = readCookie(request.headers.cookie, cookies.form) ?? randomText(32, 'abcdefghijklmnopqrstuvwxyz234567')
      const html = render(view, {
        locale: localeOf(request, preference(cookies.locale), wished),
        theme: themeOf(preference(cookies.theme)),
        sandbox,
        // If the response sets a new session cookie, the CSRF token is bound to the new session.
        csrf: proofFor(request, form, readCookie(set, cookieName(config))),
        person: actor.kind === 'user' ? { email: actor.email } : null,
        path: here ?? placeWithout(request.url ?? '/'),
        development: config.mail.readable,
        now: clock.wall(),
        brand,
        origin: config.public_url.origin,
      })
      // The rules with the seller's colour stand in the page. Their hash allows them, and no others.
      const accent = accentStyle(brand?.accent ?? null)
      return {
        html: withFonts(html)
          .replace('href="/assets/app.css"', `href="${style}"`)
          .replace('src="/assets/app.js"', `src="${script}"`)
          .replace('src="/assets/stripe.js"', `src="${processor}"`),
        headers: {
          'content-security-policy': policyOf({
            'style-src': ["'self'", ...(accent === '' ? [] : [`'sha256-${createHash('sha256').update(accent).digest('base64')}'`])],
            'font-src': ["'self'"],
            'img-src': ["'self'", 'data:', ...(outside['img-src'] ?? [])],
            'script-src': [...(scripted ? ["'self'"] : []), ...(outside['script-src'] ?? [])],
            'connect-src': [...(scripted ? ["'self'"] : []), ...(outside['connect-src'] ?? [])],
            'frame-src': outside['frame-src'] ?? [],
            'form-action': ["'self'", ...leadsTo],
            // The script may not turn texts into code or HTML, and may not define a way to do so.
            ...(trustedTypes ? { 'require-trusted-types-for': ["'script'"], 'trusted-types': ["'none'"] } : {}),
          }),
          // Sends no referrer to other sites. Our own forms still send their origin, which the policy "no-referrer" would hide.
          'referrer-policy': 'same-origin',
          // Only the payment processor's form may use the browser's wallet.
          'permissions-policy': `camera=(), geolocation=(), microphone=(), payment=(${outside['frame-src'] ? ['self', ...outside['frame-src'].map((place) => `"${place}"`)].join(' ') : ''})`,
          'x-frame-options': 'DENY',
          // Renews the form cookie, so that a form on a page that stays open remains valid.
          'set-cookie': setCookie(config, cookies.form, form, 86_400),
        },
      }
    },
  }
}
export type Pages = ReturnType<typeof openPages>

/** Returns the path without the query or secret that a link may contain, because an entry link contains a secret. */
const placeWithout = (url: string): string => {
  const [path = '/'] = url.split('?')
  if (path.startsWith('/checkout/')) return /^\/checkout\/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\/|$)/.test(path) ? path : '/'
  return /^\/[^/]+\/portal(\/|$)/.test(path) ? path : url
}

/** Encodes a URL for a header. A seller's URL may contain any characters. */
const placeOf = (address: string): string => (address.startsWith('/') ? address : new URL(address).href)

/**
 * Builds a content security policy that allows only the listed sources. A directive without sources is omitted, so that
 * `default-src` applies to it and allows none.
 */
const policyOf = (parts: Readonly<Record<string, readonly string[]>>): string =>
  [
    "default-src 'none'",
    ...Object.entries(parts).flatMap(([name, places]) => (places.length > 0 ? [`${name} ${places.join(' ')}`] : [])),
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; ')

const themeOf = (value: string | undefined): Theme => (value === 'light' || value === 'dark' ? value : 'system')

/**
 * Chooses the language. The order is: the query, the reader's earlier choice, the languages that the handler passed
 * (`wished`), the browser's preference.
 */
const localeOf = (request: IncomingMessage, chosen: string | undefined, wished: string): Locale => {
  const query = new URLSearchParams((request.url ?? '').split('?')[1] ?? '')
  const wanted = [query.get('locale') ?? '', chosen ?? '', ...wished.split(' '), ...(request.headers['accept-language'] ?? '').split(',')]
  for (const one of wanted) {
    const found = locales.find((locale) => one.trim().toLowerCase().split(/[-;]/)[0] === locale)
    if (found) return found
  }
  return 'en'
}

/** Maximum number of fields of a form that is shown again. No page of ours has as many. */
const mostRepeated = 200

/** False for a form with characters that PostgreSQL cannot store. */
const isReadable = (form: URLSearchParams) => [...form.values()].every((value) => !value.includes('\0') && value.isWellFormed())

interface Mounting {
  readonly pages: Pages
  readonly door: AuthContext
  readonly platform: Platform
  readonly budgets: Budgets
  readonly recorded: (deed: AuditContext) => Transact
}

/** Mounts every page behind the same steps: rate limit, session, CSRF check and the page's own handler. */
export const mountPages = (room: FastifyInstance, doors: readonly Page[], { pages, door, platform, budgets, recorded }: Mounting): void => {
  const { config, log } = platform
  const origins = [config.public_url.origin, config.auth_url.origin]
  room.removeAllContentTypeParsers()
  room.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string', bodyLimit: 64 * 1024 }, (_, body, done) =>
    done(null, new URLSearchParams(body as string)),
  )

  for (const [url, { type, text, br, gz }] of Object.entries(pages.assets))
    room.get(url, { exposeHeadRoute: true }, async (request, reply) => {
      const accepted = request.headers['accept-encoding'] ?? ''
      const [encoding, body] = br && /\bbr\b/.test(accepted) ? ['br', br] : gz && /\bgzip\b/.test(accepted) ? ['gzip', gz] : [undefined, text]
      return (
        reply
          .headers({ 'cache-control': 'public, max-age=31536000, immutable', 'content-type': type })
          // The icon is the logo of sample mails, whose frames have an origin of their own. The form of the payment processor
          // loads our fonts into its own frame.
          .headers(url === '/favicon.svg' || type === 'font/woff2' ? { 'cross-origin-resource-policy': 'cross-origin' } : {})
          .headers(type === 'font/woff2' ? { 'access-control-allow-origin': '*' } : {})
          .headers(br || gz ? { vary: 'accept-encoding' } : {})
          .headers(encoding === undefined ? {} : { 'content-encoding': encoding })
          .send(body)
      )
    })

  const views = openPageBudgets(platform, budgets)
  room.decorateRequest('pageBudget', null)
  const answer = async (request: FastifyRequest, reply: FastifyReply, actor: UserActor | Anonymous, given: PageAnswer) => {
    if (given.seller) pages.sellers.note(request, given.seller)
    if (given.seller === null) pages.sellers.forget(request)
    const began = request.pageBudget?.cookie
    const cookies = [...(given.cookies ?? []), ...(began === undefined ? [] : [began])]
    if ('redirect' in given)
      return reply
        .code(303)
        .headers({ location: placeOf(given.redirect), 'set-cookie': cookies })
        .send()
    if ('file' in given)
      return reply
        .headers({ 'content-disposition': `attachment; filename="${given.file.name}"`, ...(cookies.length > 0 ? { 'set-cookie': cookies } : {}) })
        .type(`${given.file.type}; charset=utf-8`)
        .send(given.file.text)
    // A mail is foreign HTML: it runs no script, has no access to our origin, and only our mailbox page may frame it.
    if ('mail' in given)
      return reply
        .headers({
          'content-security-policy':
            "default-src 'none'; style-src 'unsafe-inline'; img-src http: https: data:; frame-ancestors 'self'; sandbox allow-popups allow-popups-to-escape-sandbox",
          'cache-control': 'no-store',
        })
        .type('text/html; charset=utf-8')
        .send(given.mail.replace('<head>', '<head><base target="_blank">'))
    // Every problem page shows the request id.
    const view = given.view.kind === 'problem' ? { ...given.view, request_id: given.view.request_id ?? request.id } : given.view
    const seller = given.seller === undefined && isErrorPage(view) ? await pages.sellers.find(request, given.status ?? 200) : given.seller
    const { html, headers } = pages.show(request.raw, named(view, seller), { ...given, seller, actor })
    const { 'set-cookie': form, ...rest } = headers
    if (form !== undefined) cookies.push(form)
    return reply
      .code(given.status ?? 200)
      .headers({
        ...rest,
        ...(given.refresh === undefined ? {} : { refresh: `0; url=${placeOf(given.refresh)}` }),
        ...(cookies.length > 0 ? { 'set-cookie': cookies } : {}),
      })
      .type('text/html; charset=utf-8')
      .send(html)
  }
  /**
   * True if the form was submitted by our own page. A foreign page can make a browser submit a form, but neither from
   * our origin nor with our CSRF token.
   */
  const isOwnForm = (request: FastifyRequest, form: URLSearchParams) => {
    const site = request.headers['sec-fetch-site']
    const { origin } = request.headers
    const ownPage = site === undefined ? origin !== undefined && origins.includes(origin) : site === 'same-origin'
    return ownPage && (origin === undefined || origins.includes(origin)) && pages.proves(request.raw, form.get('csrf') ?? '')
  }

  const formOf = ({ body }: FastifyRequest) => (body instanceof URLSearchParams ? body : new URLSearchParams())
  room.setErrorHandler((error, request, reply) => {
    const form = formOf(request)
    // Only our own forms are sent again. Otherwise another site could have us send a form of its choice from our origin.
    const isRepeated = request.method === 'POST' && isOwnForm(request, form) && isReadable(form) && form.size <= mostRepeated
    const fields = isRepeated ? [...form].filter(([name]) => name !== 'csrf') : null
    const { status, fault, headers, ...page } = failedPage(error, request, fields && { action: request.raw.url ?? '/', fields })
    if (fault) log.error('request_failed', { request_id: request.id, operation: 'page', status, error })
    reply.headers(headers)
    return answer(request, reply, anonymous, { status, ...page })
  })
  // An app may send the authorization request as a form from its own page. The redirect turns it into a GET that carries our cookies.
  room.post(protocolPaths.authorization, async (request, reply) => {
    reply.headers(await budgets.spend('api', `address:${networkOf(request.ip)}`))
    return reply.redirect(`${protocolPaths.authorization}?${formOf(request).toString()}`, 303)
  })

  /** Builds an API client for pages. Its requests pass through the same pipeline as external ones, in this process. */
  const apiOf = (request: FastifyRequest, token: string | undefined) =>
    connect(
      async ({ method, url, headers, body }) => {
        const inject = async () =>
          await room.inject({
            method: method as 'GET',
            url,
            remoteAddress: request.ip,
            headers,
            ...(body === undefined ? {} : { payload: body }),
          })
        const answer = await pageOfCall.run(request.pageBudget!, inject)
        const all = new Headers()
        for (const [name, value] of Object.entries(answer.headers)) for (const one of [value ?? []].flat()) all.append(name, String(one))
        return { status: answer.statusCode, headers: all, text: answer.payload }
      },
      token === undefined ? {} : { authorization: `Bearer ${token}` },
    )

  const refused = (request: FastifyRequest, status: number, error: string): PageAnswer => ({ status, view: problemView(request, { status, error }) })
  for (const page of doors)
    room.route({
      method: page.method,
      url: page.path,
      // HEAD answers with the status and the headers of GET.
      exposeHeadRoute: page.method === 'GET',
      onRequest: async (request, reply) => {
        request.pageBudget = views.budgetOf(request)
        if (page.method === 'GET') reply.headers(await request.pageBudget.admit())
      },
      // The body of a form is read before the budget is charged, so that the page about the limit can send the form again.
      preHandler: async (request, reply) => {
        if (page.method === 'POST') reply.headers(await request.pageBudget!.admit())
        if (page.budget) reply.headers(await budgets.spend(page.budget, networkOf(request.ip)))
      },
      handler: async (request, reply) => {
        const form = formOf(request)
        const actor = (await personBehind(door.find, platform, request.headers.cookie)) ?? anonymous
        if (page.method === 'POST' && !isOwnForm(request, form)) return answer(request, reply, actor, refused(request, 403, 'form_refused'))
        if (!isReadable(form)) return answer(request, reply, actor, refused(request, 400, 'form_unreadable'))
        if (page.signedIn && actor.kind === 'anonymous') {
          const back = page.method === 'GET' ? (request.raw.url ?? '/') : '/settings/apps'
          return answer(request, reply, actor, { redirect: `/login?return_to=${encodeURIComponent(back)}` })
        }
        return answer(
          request,
          reply,
          actor,
          await page.handle({
            actor,
            params: request.params as Record<string, string>,
            query: new URLSearchParams((request.raw.url ?? '').split('?')[1] ?? ''),
            form,
            address: request.ip,
            request: request.raw,
            response: reply.raw,
            locale: (wished = '') => pages.localeOf(request.raw, wished),
            transact: recorded({ operation: `${page.method} ${page.path}`, request_id: request.id, actor }),
            api: (token) => apiOf(request, token),
          }),
        )
      },
    })
}
