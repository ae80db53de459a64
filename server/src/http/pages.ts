import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { connect } from '@bursar/contract/client'
import { locales, type Frame, type Locale, type Theme, type View } from '@bursar/views'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { anonymous, type Anonymous, type UserActor } from '../kernel/actors.ts'
import { networkOf } from '../kernel/networks.ts'
import { randomText, sameText, Secret } from '../kernel/secrets.ts'
import type { Outside, Page, PageAnswer, Platform } from '../modules/handlers.ts'
import type { AuditContext } from '../platform/audit/audit.ts'
import type { Transact } from '../platform/postgres/postgres.ts'
import { cookieName, hostCookie, personBehind, protocolPaths, readCookie, setCookie } from '../modules/identity/index.ts'
import type { AuthContext } from './authenticate.ts'
import type { Budgets } from './budget.ts'
import { answerFailure } from './failures.ts'

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
}

interface Showing {
  readonly actor?: UserActor | Anonymous
  readonly leadsTo?: readonly string[]
  readonly locales?: string
  readonly here?: string
  readonly cookies?: readonly string[]
  readonly script?: boolean
  readonly outside?: Outside
}

export interface Shown {
  readonly html: string
  readonly headers: Record<string, string>
}

/** Renders pages in the reader's language and theme, with a content security policy and a CSRF token for their forms. */
export const openPages = ({ platform, render, stylesheet, script: program, processorScript, icon }: PagesOptions) => {
  const { config, hasher, clock } = platform
  const sandbox = config.environment === 'sandbox'
  const nameOf = (text: string) => createHash('sha256').update(text).digest('base64url').slice(0, 12)
  const [style, script, processor] = [`/assets/${nameOf(stylesheet)}.css`, `/assets/${nameOf(program)}.js`, `/assets/${nameOf(processorScript)}.js`]
  const cookies = { form: hostCookie(config, 'form'), theme: hostCookie(config, 'theme'), locale: hostCookie(config, 'locale') }

  /** Computes the CSRF token of a form. It binds the form to the browser and to the session in which the form was shown. */
  const proofFor = (request: IncomingMessage, form: string, session = readCookie(request.headers.cookie, cookieName(config)) ?? '') =>
    hasher.hash(new Secret(`form:${form}:${session}`))

  return {
    cookies,
    assets: {
      [style]: { type: 'text/css; charset=utf-8', text: stylesheet },
      [script]: { type: 'text/javascript; charset=utf-8', text: program },
      [processor]: { type: 'text/javascript; charset=utf-8', text: processorScript },
      '/favicon.svg': { type: 'image/svg+xml', text: icon(sandbox) },
    },
    proves: (request: IncomingMessage, given: string): boolean => {
      const form = readCookie(request.headers.cookie, cookies.form)
      return form !== undefined && sameText(proofFor(request, form), given)
    },
    show: (
      request: IncomingMessage,
      view: View,
      { actor = anonymous, leadsTo = [], locales: wished = '', here, cookies: setting = [], script: scripted = false, outside = {} }: Showing = {},
    ): Shown => {
      const form = readCookie(request.headers.cookie, cookies.form) ?? randomText(32, 'abcdefghijklmnopqrstuvwxyz234567')
      const html = render(view, {
        locale: localeOf(request, readCookie(request.headers.cookie, cookies.locale), wished),
        theme: themeOf(readCookie(request.headers.cookie, cookies.theme)),
        sandbox,
        // If the response sets a new session cookie, the CSRF token is bound to the new session.
        csrf: proofFor(request, form, readCookie(setting.map((line) => line.split(';')[0]).join('; '), cookieName(config))),
        person: actor.kind === 'user' ? { email: actor.email } : null,
        path: here ?? placeWithout(request.url ?? '/'),
        development: config.mail.readable,
        now: clock.wall(),
      })
      return {
        html: html
          .replace('href="/assets/app.css"', `href="${style}"`)
          .replace('src="/assets/app.js"', `src="${script}"`)
          .replace('src="/assets/stripe.js"', `src="${processor}"`),
        headers: {
          'content-security-policy': policyOf({
            'style-src': ["'self'"],
            'img-src': ["'self'", 'data:', ...(outside['img-src'] ?? [])],
            'script-src': [...(scripted ? ["'self'"] : []), ...(outside['script-src'] ?? [])],
            'connect-src': [...(scripted ? ["'self'"] : []), ...(outside['connect-src'] ?? [])],
            'frame-src': outside['frame-src'] ?? [],
            'form-action': ["'self'", ...leadsTo],
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

  for (const [url, { type, text }] of Object.entries(pages.assets))
    room.get(url, async (_, reply) => reply.headers({ 'cache-control': 'public, max-age=31536000, immutable', 'content-type': type }).send(text))

  const answer = (request: FastifyRequest, reply: FastifyReply, actor: UserActor | Anonymous, given: PageAnswer) => {
    const cookies = [...(given.cookies ?? [])]
    if ('redirect' in given)
      return reply
        .code(303)
        .headers({ location: placeOf(given.redirect), 'set-cookie': cookies })
        .send()
    // Every problem page shows the request id.
    const view = given.view.kind === 'problem' ? { ...given.view, request_id: given.view.request_id ?? request.id } : given.view
    const { html, headers } = pages.show(request.raw, view, { ...given, actor })
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
  const problem = (request: FastifyRequest, status: number, error: string, description: string, retry_after: number | null = null): PageAnswer => ({
    status,
    view: {
      kind: 'problem',
      status,
      error,
      description,
      request_id: request.id,
      retry_after,
      visitor: !/^\/(login|settings|oauth2)\b/.test(request.raw.url ?? ''),
    },
    script: retry_after !== null,
  })
  room.setErrorHandler((error, request, reply) => {
    const { status, body, fault, headers } = answerFailure(error)
    if (fault) log.error('request_failed', { request_id: request.id, operation: 'page', status, error })
    const { error: name = 'error', detail } = body as { error?: string; detail?: unknown }
    reply.headers(headers)
    // The error page reloads by itself only after a GET request. A submitted form is not sent again automatically.
    const waits = request.method === 'GET' && headers['retry-after'] !== undefined ? Math.max(1, Math.ceil(Number(headers['retry-after']))) : null
    return answer(request, reply, anonymous, problem(request, status, name, typeof detail === 'string' ? detail : '', waits))
  })

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

  // An app may send the authorization request as a form from its own page. The redirect turns it into a GET that carries our cookies.
  room.post(protocolPaths.authorization, async (request, reply) => {
    reply.headers(await budgets.spend('api', `address:${networkOf(request.ip)}`))
    const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams()
    return reply.redirect(`${protocolPaths.authorization}?${form.toString()}`, 303)
  })

  /** Builds an API client for pages. Its requests pass through the same pipeline as external ones, in this process. */
  const apiOf = (request: FastifyRequest, token: string | undefined) =>
    connect(
      async ({ method, url, headers, body }) => {
        const answer = await room.inject({
          method: method as 'GET',
          url,
          remoteAddress: request.ip,
          headers,
          ...(body === undefined ? {} : { payload: body }),
        })
        const all = new Headers()
        for (const [name, value] of Object.entries(answer.headers)) for (const one of [value ?? []].flat()) all.append(name, String(one))
        return { status: answer.statusCode, headers: all, text: answer.payload }
      },
      token === undefined ? {} : { authorization: `Bearer ${token}` },
    )

  for (const page of doors)
    room.route({
      method: page.method,
      url: page.path,
      onRequest: async (request, reply) => {
        const who = networkOf(request.ip)
        reply.headers(await budgets.spend(page.budget ?? 'api', page.budget ? who : `address:${who}`))
      },
      handler: async (request, reply) => {
        const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams()
        const actor = (await personBehind(door.find, platform, request.headers.cookie)) ?? anonymous
        if (page.method === 'POST' && !isOwnForm(request, form)) return answer(request, reply, actor, problem(request, 403, 'form_refused', ''))
        if ([...form.values()].some((value) => value.includes('\0') || !value.isWellFormed()))
          return answer(request, reply, actor, problem(request, 400, 'form_unreadable', ''))
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
            transact: recorded({ operation: `${page.method} ${page.path}`, request_id: request.id, actor }),
            api: (token) => apiOf(request, token),
          }),
        )
      },
    })
}
