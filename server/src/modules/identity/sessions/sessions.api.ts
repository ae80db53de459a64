import {
  getCurrentUser,
  renewSession,
  requestRenewalCode,
  requestSignInCode,
  SecondFactorRequired,
  signOut,
  signOutEverywhere,
  SignInRefused,
  verifySecondFactor,
  verifySignInCode,
} from '@bursar/contract'
import { readCode, Secret } from '../../../kernel/secrets.ts'
import { seconds } from '../../../platform/clock.ts'
import { periodicTask, job, read, refuse, write, type Platform } from '../../handlers.ts'
import { callerOf } from './browsers.ts'
import { cookieName, pendingCookieName, readCookie, setCookie } from './cookies.ts'
import {
  mailCode,
  presentSignedIn,
  purge,
  renew,
  requestCode,
  sessionLife,
  signIn,
  signInFully,
  signOut as end,
  signOutEverywhere as endAll,
} from './sessions.ts'

const sessionCookie = ({ config }: Platform, session: Secret): string => setCookie(config, cookieName(config), session.reveal(), sessionLife / seconds)

export const operations = [
  write(requestSignInCode, async (tx, { body, platform, reply, ...call }) => {
    reply['set-cookie'] = await requestCode(tx, platform, callerOf(call), body.email)
  }),
  write(verifySignInCode, async (tx, { body, platform, reply, ...call }) => {
    const signedIn = await signIn(tx, platform, callerOf(call), body.email, readCode(body.code))
    // `refuse` commits the transaction, so that the attempt stays counted.
    if (!signedIn) return refuse(new SignInRefused())
    if ('pending' in signedIn) {
      const cookie = setCookie(platform.config, pendingCookieName(platform.config), signedIn.pending.reveal(), 600)
      return refuse(new SecondFactorRequired(undefined, { 'set-cookie': cookie }))
    }
    reply['set-cookie'] = [sessionCookie(platform, signedIn.session), signedIn.recognised]
    return signedIn.user
  }),
  write(verifySecondFactor, async (tx, { body, platform, reply, ...call }) => {
    const caller = callerOf(call)
    const pending = readCookie(caller.cookies, pendingCookieName(platform.config))
    const signedIn = pending === undefined ? null : await signInFully(tx, platform, caller, new Secret(pending), body.code)
    if (!signedIn) return refuse(new SignInRefused())
    reply['set-cookie'] = [sessionCookie(platform, signedIn.session), signedIn.recognised]
    return signedIn.user
  }),
  write(signOut, async (tx, { actor, platform, reply }) => {
    await end(tx, actor.credential_id)
    reply['set-cookie'] = setCookie(platform.config, cookieName(platform.config), '', 0)
  }),
  write(signOutEverywhere, async (tx, { actor, platform, reply }) => {
    await endAll(tx, actor.user_id)
    reply['set-cookie'] = setCookie(platform.config, cookieName(platform.config), '', 0)
  }),
  read(getCurrentUser, (db, { actor }) => presentSignedIn(db, actor)),
  write(requestRenewalCode, async (tx, { actor, platform, reply, ...call }) => {
    reply['set-cookie'] = await requestCode(tx, platform, callerOf(call), actor.email)
  }),
  write(renewSession, async (tx, { actor, body, platform, ...call }) => {
    const renewed = await renew(tx, platform, callerOf(call), actor, { code: readCode(body.code), second_factor: body.second_factor ?? undefined })
    // `refuse` commits the transaction, so that the attempt stays counted.
    if (renewed === null) return refuse(new SignInRefused())
    return renewed === 'factor'
      ? refuse(new SecondFactorRequired('The code is correct, and this account has a second factor. Send it as `second_factor`.'))
      : renewed
  }),
]

export const jobs = [job('mail.sign_in_code', mailCode)]
export const periodicTasks = [periodicTask('identity.purge', purge)]
