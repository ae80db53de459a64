import { email as emailSchema, locales, themes, type Mishap } from '@bursar/contract'
import { readLetters } from '../../../gateways/mail/mail.ts'
import { readCode, Secret } from '../../../kernel/secrets.ts'
import { seconds } from '../../../platform/clock.ts'
import type { Page, PageAnswer, PageCall } from '../../handlers.ts'
import { isPending } from '../factors/factors.sql.ts'
import { cookieName, hostCookie, pendingCookieName, readCookie, setCookie } from '../sessions/cookies.ts'
import { triesLeft } from '../sessions/sessions.sql.ts'
import { requestCode, sessionLife, signIn, signInFully, signOut } from '../sessions/sessions.ts'
import { placeOf, type PageMeans } from './means.ts'

/** An address of ours to go back to: a path, and nothing that a browser could read as another host. */
export const ownPath = (given: string | null, otherwise: string): string =>
  given !== null && /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(given) ? given : otherwise

const home = '/settings/apps'

export const signInPages = ({ oauth, platform, postgres }: PageMeans): Page[] => {
  const { config } = platform
  const { db } = postgres

  const view = async (
    step: 'email' | 'code' | 'factor',
    more: { email: string; return_to: string; mishap?: Mishap; resent?: boolean; tries_left?: number | null },
    rest: { status?: number; cookies?: readonly string[] } = {},
  ): Promise<PageAnswer> => {
    const [, uid] = /^\/oauth2\/interaction\/([\w-]+)$/.exec(more.return_to) ?? []
    const waiting = uid === undefined ? undefined : await oauth.waitingApp(uid)
    return {
      ...rest,
      // Where everything is allowed already, signing in leads straight back to the app.
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
  const enter = (session: Secret, return_to: string): PageAnswer => ({
    redirect: return_to,
    cookies: [
      setCookie(config, cookieName(config), session.reveal(), sessionLife / seconds),
      setCookie(config, pendingCookieName(config), '', 0),
      // The proof in forms changes hands with the session.
      setCookie(config, hostCookie(config, 'form'), '', 0),
    ],
  })
  /** Signing in anew ends the session that this browser had. */
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
          const done = await call.transact((tx) => signInFully(tx, platform, new Secret(pending), form.get('code') ?? ''))
          if (!done) {
            const again = await isPending(db, platform.hasher.candidates(new Secret(pending)), platform.clock.wall())
            return again
              ? view('factor', { email, return_to, mishap: 'factor_wrong' }, { status: 400 })
              : view('email', { email, return_to, mishap: 'code_expired' }, { status: 400 })
          }
          await leaveOld(call)
          return enter(done.session, return_to)
        }
        if (!emailSchema().safeParse(email).success) return view('email', { email, return_to, mishap: 'email_invalid' }, { status: 400 })
        if (step === 'code') {
          const done = await call.transact((tx) => signIn(tx, platform, email, readCode(form.get('code') ?? '')))
          if (done === null) {
            const tries_left = await triesLeft(db, email, platform.clock.wall())
            const mishap = tries_left === 0 ? 'code_expired' : 'code_wrong'
            return view('code', { email, return_to, mishap, tries_left }, { status: 400 })
          }
          if ('pending' in done)
            return view('factor', { email, return_to }, { cookies: [setCookie(config, pendingCookieName(config), done.pending.reveal(), 600)] })
          await leaveOld(call)
          return enter(done.session, return_to)
        }
        await call.transact((tx) => requestCode(tx, email))
        return view('code', { email, return_to, resent: form.has('resend') })
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
        const year = 365 * 24 * 3600
        const chosen = (name: string, values: readonly string[]) => {
          const value = form.get(name)
          return value !== null && values.includes(value) ? [setCookie(config, hostCookie(config, name), value, year)] : []
        }
        // The choice in the address has done its work: what was chosen now counts.
        const back = new URL(ownPath(form.get('return_to'), home), config.public_url)
        back.searchParams.delete('locale')
        return { redirect: back.pathname + back.search, cookies: [...chosen('theme', themes), ...chosen('locale', locales)] }
      },
    },
    ...(!config.mail.readable
      ? []
      : [
          {
            method: 'GET' as const,
            path: '/mailbox' as const,
            signedIn: false,
            handle: async (): Promise<PageAnswer> => ({ view: { kind: 'mailbox', letters: await readLetters(config.mail.directory!, 50) } }),
          },
        ]),
  ]
}
