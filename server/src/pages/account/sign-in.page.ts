import { email as emailSchema, ResourceNotFound } from '@bursar/contract'
import type { Mishap } from '@bursar/views'
import { readHtml, readLetters } from '../../gateways/mail/mail.ts'
import { isId } from '../../kernel/ids.ts'
import { readCode, Secret } from '../../kernel/secrets.ts'
import type { Page, PageAnswer, PageCall } from '../../modules/handlers.ts'
import {
  cookieName,
  hostCookie,
  isPending,
  keepCodeBrowser,
  preferenceCookies,
  pendingCookieName,
  readCodeBrowser,
  readCookie,
  requestCode,
  sessionLife,
  setCookie,
  signIn,
  signInFully,
  signOut,
  triesPerCode,
  type Caller,
} from '../../modules/identity/index.ts'
import { seconds } from '../../platform/clock.ts'
import { isLocal, MailboxNotLocal } from '../../platform/hosts.ts'
import { placeOf, type PageDeps } from './deps.ts'
import { framing, galleryPages } from './gallery.page.ts'

/** Returns the path if it leads to our own host, otherwise the fallback. Rejects values that a browser could read as another host. */
export const ownPath = (given: string | null, otherwise: string): string =>
  given !== null && /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(given) ? given : otherwise

const home = '/settings/apps'

export const signInPages = ({ oauth, platform, postgres }: PageDeps): Page[] => {
  const { config } = platform
  const { db } = postgres

  /** Returns the app that waits for this sign-in, if any. */
  const waitingAt = async (return_to: string) => {
    const [, uid] = /^\/oauth2\/interaction\/([\w-]+)$/.exec(return_to) ?? []
    return uid === undefined ? undefined : oauth.waitingApp(uid)
  }

  const view = async (
    step: 'email' | 'code' | 'factor',
    more: { email: string; return_to: string; mishap?: Mishap; resent?: boolean; tries_left?: number | null },
    rest: { status?: number; cookies?: readonly string[] } = {},
  ): Promise<PageAnswer> => {
    const waiting = await waitingAt(more.return_to)
    return {
      ...rest,
      // The content security policy must allow the app's redirect URI. If all scopes are granted already, submitting
      // the form redirects straight to the app.
      ...(waiting ? { leadsTo: [placeOf(waiting.redirect_uri)], locales: waiting.locales } : {}),
      here: `/login?again=1&return_to=${encodeURIComponent(more.return_to)}`,
      view: {
        kind: 'sign-in',
        step,
        email: more.email,
        return_to: more.return_to,
        client_name: waiting?.name ?? null,
        mishap: more.mishap ?? null,
        resent: more.resent ?? false,
        tries_left: more.tries_left ?? null,
      },
    }
  }
  const callerOf = ({ address, request }: PageCall): Caller => ({ address, cookies: request.headers.cookie })
  const enter = ({ session, recognised }: { session: Secret; recognised: string }, return_to: string): PageAnswer => ({
    redirect: return_to,
    cookies: [
      setCookie(config, cookieName(config), session.reveal(), sessionLife / seconds),
      recognised,
      setCookie(config, pendingCookieName(config), '', 0),
      // Clears the form cookie, because the CSRF token is bound to the session, which changes here.
      setCookie(config, hostCookie(config, 'form'), '', 0),
    ],
  })
  /** Ends the previous session of this browser at a new sign-in. */
  const leaveOld = async ({ actor, transact }: PageCall) => {
    if (actor.kind === 'user') await transact((tx) => signOut(tx, actor.credential_id))
  }

  return [
    {
      method: 'GET',
      path: '/login',
      signedIn: false,
      handle: async (call) => {
        const return_to = ownPath(call.query.get('return_to'), home)
        if (call.actor.kind === 'user' && !call.query.has('again')) return { redirect: return_to }
        return view('email', { email: call.query.get('login_hint') ?? '', return_to })
      },
    },
    {
      method: 'POST',
      path: '/login',
      signedIn: false,
      budget: 'sign_in',
      handle: async (call) => {
        const { form, request } = call
        const return_to = ownPath(form.get('return_to'), home)
        const email = (form.get('email') ?? '').trim()
        const step = form.get('step')
        if (step === 'factor') {
          const pending = readCookie(request.headers.cookie, pendingCookieName(config))
          if (pending === undefined) return view('email', { email: '', return_to, mishap: 'code_expired' }, { status: 400 })
          const done = await call.transact((tx) => signInFully(tx, platform, callerOf(call), new Secret(pending), form.get('code') ?? ''))
          if (!done) {
            const again = await isPending(db, platform.hasher.candidates(new Secret(pending)), platform.clock.wall())
            return again
              ? view('factor', { email, return_to, mishap: 'factor_wrong' }, { status: 400 })
              : view('email', { email, return_to, mishap: 'code_expired' }, { status: 400 })
          }
          await leaveOld(call)
          return enter(done, return_to)
        }
        if (!emailSchema().safeParse(email).success) return view('email', { email, return_to, mishap: 'email_invalid' }, { status: 400 })
        if (step === 'code') {
          const done = await call.transact((tx) => signIn(tx, platform, callerOf(call), email, readCode(form.get('code') ?? '')))
          if (done === null) {
            // Wrong codes are counted in a cookie. The response is therefore the same for addresses with and without an account.
            const browser = readCodeBrowser(platform, request.headers.cookie)
            const wrong = (browser?.wrong ?? triesPerCode) + 1
            if (!browser || wrong >= triesPerCode) return view('code', { email, return_to, mishap: 'code_expired' }, { status: 400 })
            const cookies = [keepCodeBrowser(platform, { ...browser, wrong })]
            return view('code', { email, return_to, mishap: 'code_wrong', tries_left: triesPerCode - wrong }, { status: 400, cookies })
          }
          if ('pending' in done)
            return view('factor', { email, return_to }, { cookies: [setCookie(config, pendingCookieName(config), done.pending.reveal(), 600)] })
          await leaveOld(call)
          return enter(done, return_to)
        }
        const language = call.locale((await waitingAt(return_to))?.locales)
        const cookie = await call.transact((tx) => requestCode(tx, platform, callerOf(call), email, language))
        return view('code', { email, return_to, resent: form.has('resend') }, { cookies: [cookie] })
      },
    },
    {
      method: 'POST',
      path: '/logout',
      signedIn: false,
      handle: async (call) => {
        await leaveOld(call)
        const return_to = ownPath(call.form.get('return_to'), home)
        return { redirect: `/login?return_to=${encodeURIComponent(return_to)}`, cookies: [setCookie(config, cookieName(config), '', 0)] }
      },
    },
    {
      method: 'POST',
      path: '/preferences',
      signedIn: false,
      handle: async ({ form }) => {
        // Drops the locale from the URL, because it would override the new choice.
        const back = new URL(ownPath(form.get('return_to'), home), config.public_url)
        back.searchParams.delete('locale')
        return { redirect: back.pathname + back.search, cookies: preferenceCookies(platform, form) }
      },
    },
    ...(!config.mail.readable
      ? []
      : [
          {
            method: 'GET' as const,
            path: '/mailbox' as const,
            signedIn: false,
            // The mailbox page answers only requests from this machine, because the mailbox contains sign-in codes.
            handle: async ({ request }: PageCall): Promise<PageAnswer> => {
              if (!isLocal(request)) throw new MailboxNotLocal()
              const letters = await readLetters(config.mail.directory!, 50)
              const shown = letters.map(({ id, has_html, ...letter }) => ({ ...letter, html_path: has_html ? `/mailbox/mails/${id}` : null }))
              return { view: { kind: 'mailbox', letters: shown }, outside: framing }
            },
          },
          {
            method: 'GET' as const,
            path: '/mailbox/mails/:id' as const,
            signedIn: false,
            handle: async ({ request, params }: PageCall): Promise<PageAnswer> => {
              if (!isLocal(request)) throw new MailboxNotLocal()
              const html = isId(params.id) ? await readHtml(config.mail.directory!, params.id) : undefined
              if (html === undefined) throw new ResourceNotFound()
              return { mail: html }
            },
          },
          ...galleryPages(platform),
        ]),
  ]
}
