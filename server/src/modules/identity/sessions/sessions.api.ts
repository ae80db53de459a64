import { getCurrentUser, requestSignInCode, SecondFactorRequired, signOut, SignInRefused, verifySecondFactor, verifySignInCode } from '@bursar/contract'
import { readCode, Secret } from '../../../kernel/secrets.ts'
import { seconds } from '../../../platform/clock.ts'
import { chore, job, read, refuse, write } from '../../handlers.ts'
import { cookieName, pendingCookieName, readCookie, setCookie } from './cookies.ts'
import { mailCode, purge, requestCode, sessionLife, signIn, signInFully, signOut as end } from './sessions.ts'
import { findUser } from './sessions.sql.ts'

export const operations = [
  write(requestSignInCode, async (tx, { body }) => {
    await requestCode(tx, body.email)
  }),
  write(verifySignInCode, async (tx, { body, platform, reply }) => {
    const signedIn = await signIn(tx, platform, body.email, readCode(body.code))
    // The spent try must stay spent, so this refusal commits.
    if (!signedIn) return refuse(new SignInRefused())
    if ('pending' in signedIn) {
      const cookie = setCookie(platform.config, pendingCookieName(platform.config), signedIn.pending.reveal(), 600)
      return refuse(new SecondFactorRequired(undefined, { 'set-cookie': cookie }))
    }
    reply['set-cookie'] = setCookie(platform.config, cookieName(platform.config), signedIn.session.reveal(), sessionLife / seconds)
    return signedIn.user
  }),
  write(verifySecondFactor, async (tx, { raw, body, platform, reply }) => {
    const pending = readCookie(raw.headers.cookie as string | undefined, pendingCookieName(platform.config))
    const signedIn = pending === undefined ? null : await signInFully(tx, platform, new Secret(pending), body.code)
    if (!signedIn) return refuse(new SignInRefused())
    reply['set-cookie'] = setCookie(platform.config, cookieName(platform.config), signedIn.session.reveal(), sessionLife / seconds)
    return signedIn.user
  }),
  write(signOut, async (tx, { actor, platform, reply }) => {
    await end(tx, actor.credential_id)
    reply['set-cookie'] = setCookie(platform.config, cookieName(platform.config), '', 0)
  }),
  read(getCurrentUser, async (db, { actor }) => (await findUser(db, actor.user_id))!),
]

export const jobs = [job('mail.sign_in_code', mailCode)]
export const chores = [chore('identity.purge', purge)]
