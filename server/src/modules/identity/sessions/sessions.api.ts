import { getCurrentUser, requestSignInCode, signOut, SignInRefused, verifySignInCode } from '@bursar/contract'
import { readCode } from '../../../kernel/secrets.ts'
import type { Config } from '../../../platform/config.ts'
import { chore, job, read, refuse, write } from '../../handlers.ts'
import { mailCode, purge, requestCode, signIn, signOut as end } from './sessions.ts'
import { findUser } from './sessions.sql.ts'

/** The cookie names its environment, and on https nothing but this host can set or read it. */
export const cookieName = ({ environment, public_url }: Pick<Config, 'environment' | 'public_url'>): string =>
  `${public_url.protocol === 'https:' ? '__Host-' : ''}bursar_${environment}_session`

/** Likewise for the portal, with the organization's id behind it: a browser can be in the portals of several sellers. */
export const portalCookiePrefix = ({ environment, public_url }: Pick<Config, 'environment' | 'public_url'>): string =>
  `${public_url.protocol === 'https:' ? '__Host-' : ''}bursar_${environment}_portal_`

/** A cookie that scripts cannot read and other sites cannot make a browser send along with a change. */
export const setCookie = (config: Pick<Config, 'public_url'>, name: string, value: string, seconds: number): string =>
  `${name}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${seconds}${config.public_url.protocol === 'https:' ? '; Secure' : ''}`

export const operations = [
  write(requestSignInCode, async (tx, { body }) => {
    await requestCode(tx, body.email)
  }),
  write(verifySignInCode, async (tx, { body, platform, reply }) => {
    const signedIn = await signIn(tx, platform, body.email, readCode(body.code))
    // The spent try must stay spent, so this refusal commits.
    if (!signedIn) return refuse(new SignInRefused())
    reply['set-cookie'] = setCookie(platform.config, cookieName(platform.config), signedIn.session.reveal(), 31 * 24 * 3600)
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
