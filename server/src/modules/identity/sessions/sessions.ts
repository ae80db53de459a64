import { InvalidRequest, type CurrentUser, type User } from '@bursar/contract'
import type { UserActor } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import type { Language } from '../../../kernel/languages.ts'
import { newCode, newToken, Secret } from '../../../kernel/secrets.ts'
import { days, hours, later, minutes } from '../../../platform/clock.ts'
import { readSwitches } from '../../../platform/migrations/migrations.ts'
import type { Payload } from '../../../platform/jobs/catalogue.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { deleteUsedCodes, type Mailbox } from '../../../platform/postgres/codes.sql.ts'
import { isUniqueViolation, type Db, type Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { accountUrl, permissionsOf, sendMail } from '../../organizations/index.ts'
import { addCredential, dropCredentials, type FindCredential } from '../credentials/credentials.sql.ts'
import { closedStatuses, InvalidToken, resolve } from '../credentials/credentials.ts'
import { purgePending } from '../factors/factors.sql.ts'
import { beginPending, completePending, hasFactor, isSecondFactor } from '../factors/factors.ts'
import { isInvited } from '../memberships/invitations.sql.ts'
import { codeBrowserOf, codeLife, keepCodeBrowser, originOf, recogniseBrowser, type Caller } from './browsers.ts'
import { matchCode, requestMailedCode } from './codes.ts'
import { cookieName, readCookie } from './cookies.ts'
import {
  deleteExpired,
  deleteSession,
  deleteSessionsOf,
  findCode,
  findRoles,
  findSignedIn,
  findUser,
  findUserByEmail,
  insertSession,
  insertUser,
  markVerified,
  renewSession,
  setCodeHash,
} from './sessions.sql.ts'

export const sessionLife = 31 * days

const mailboxOf = (email: string): Mailbox => ({ table: 'sign_in_codes', email })

/**
 * Requests a sign-in code by mail. Response and duration do not reveal whether the address is known or rate limited.
 * The mail job decides whether to send a mail. The mail has the language of the page. Returns the cookie that binds the code to the requesting browser.
 */
export const requestCode = async (tx: Tx, platform: Platform, caller: Caller, email: string, language: Language = 'en'): Promise<string> => {
  const browser = codeBrowserOf(platform, caller)
  const user = await findUserByEmail(tx, email)
  const mailbox = mailboxOf(email)
  // Sends the code to the stored address, not to the typed one. A look-alike address must not receive the code.
  const id = await requestMailedCode(tx, mailbox, originOf(platform, mailbox, caller, browser), user?.email ?? email)
  if (id !== null) await enqueue(tx, 'mail.sign_in_code', { sign_in_code_id: id, language })
  return keepCodeBrowser(platform, browser)
}

/** Creates a sign-in code, stores its hash and mails it, if the address may sign in. If the job runs again, the new code replaces the first. */
export const mailCode = async (deps: Deps, { sign_in_code_id, language }: Payload<'mail.sign_in_code'>): Promise<void> => {
  const { db, transact, platform } = deps
  const request = await findCode(db, sign_in_code_id)
  if (!request || request.expires_at <= platform.clock.wall() || !(await mayEnter(db, request.email, platform.clock.wall()))) return
  const code = newCode()
  await transact((tx) => setCodeHash(tx, request.id, platform.hasher.hash(bound(request.id, code))))
  const view = { kind: 'sign_in_code', code: code.reveal(), minutes: codeLife / minutes, sign_in_url: accountUrl(platform, '/login') } as const
  await sendMail(deps, { to: request.email, seller: null, language, view })
}

/** Returns true for known users who are not blocked, and for invited addresses. Returns true for every unknown address if sign-up is open. */
const mayEnter = async (db: Db, email: string, now: Date): Promise<boolean> => {
  const user = await findUserByEmail(db, email)
  if (user) return user.blocked_at === null
  return (await isInvited(db, email, now)) || (await readSwitches(db)).sign_up_open
}

/** Removes expired sessions and codes. */
export const purge = async ({ transact, platform }: Deps): Promise<void> =>
  transact(async (tx) => {
    const wall = platform.clock.wall()
    await deleteExpired(tx, wall)
    await purgePending(tx, wall)
  })

/** Result of a correct code: a session with the cookie that recognizes the browser later, or a sign-in that waits for its second factor. */
export type SignedIn = { readonly user: User; readonly session: Secret; readonly recognised: string } | { readonly pending: Secret }

/** Exchanges a mailed code for a session. Returns null, without a reason, if the sign-in is rejected. The attempt is still counted. */
export const signIn = async (tx: Tx, platform: Platform, caller: Caller, email: string, code: Secret): Promise<SignedIn | null> => {
  const wall = tx.clock.wall()
  const mailbox = mailboxOf(email)
  const origin = originOf(platform, mailbox, caller)
  const matched = await matchCode(tx, platform, mailbox, origin, (id) => bound(id, code))
  if (!matched) return null
  await deleteUsedCodes(tx, mailbox, origin, matched.id)
  const user = (await findUserByEmail(tx, email)) ?? (await createUser(tx, { email, is_operator: false }))
  if (user.blocked_at) return null
  await markVerified(tx, user.id, wall)
  if (await hasFactor(tx, user.id)) return { pending: await beginPending(tx, platform, user.id) }
  const session = await startSession(tx, platform, user.id)
  return { user: { ...user, email_verified: true }, session, recognised: recogniseBrowser(platform, mailbox, caller) }
}

/** Completes a sign-in with the second factor. Returns null if the sign-in is rejected. The attempt is still counted. */
export const signInFully = async (tx: Tx, platform: Platform, caller: Caller, pending: Secret, typed: string) => {
  const user_id = await completePending(tx, platform, pending, typed)
  const user = user_id === null ? undefined : await findUser(tx, user_id)
  if (!user || user.blocked_at) return null
  const session = await startSession(tx, platform, user.id, { second_factor: true })
  return { user, session, recognised: recogniseBrowser(platform, mailboxOf(user.email), caller) }
}

/** Time after a sign-in for which operations are allowed that need a recent one. */
export const freshFor = 1 * hours

/** Returns the signed-in person, with what they may do in each of their organizations. */
export const presentSignedIn = async (db: Db, actor: UserActor): Promise<CurrentUser> => {
  const { session_has_factor, factor_confirmed, memberships, ...user } = await findSignedIn(db, actor.user_id, actor.credential_id, [
    ...actor.memberships.keys(),
  ])
  return {
    ...user,
    second_factor: { enabled: factor_confirmed, required: user.is_operator, missing: user.is_operator && !session_has_factor },
    signed_in_at: actor.credential_created_at,
    fresh_until: later(actor.credential_created_at, freshFor),
    memberships: memberships.map((membership) => ({ ...membership, permissions: permissionsOf(membership.role) })),
  }
}

/**
 * Renews the sign-in of a session with a mailed code, and with the second factor if the person has one. The session and
 * its cookie stay. Returns `factor` if the code is correct and the second factor is missing; the code then stays valid.
 * Returns null if a code is wrong. The attempt is still counted.
 */
export const renew = async (
  tx: Tx,
  platform: Platform,
  caller: Caller,
  actor: UserActor,
  given: { readonly code: Secret; readonly second_factor: string | undefined },
): Promise<{ signed_in_at: Date; fresh_until: Date } | 'factor' | null> => {
  const mailbox = mailboxOf(actor.email)
  const origin = originOf(platform, mailbox, caller)
  const matched = await matchCode(tx, platform, mailbox, origin, (id) => bound(id, given.code))
  if (!matched) return null
  const guarded = await hasFactor(tx, actor.user_id)
  if (guarded && given.second_factor === undefined) {
    await matched.returnTry()
    return 'factor'
  }
  if (guarded && !(await isSecondFactor(tx, platform, actor.user_id, given.second_factor!))) return null
  await deleteUsedCodes(tx, mailbox, origin, matched.id)
  const wall = tx.clock.wall()
  await renewSession(tx, actor.credential_id, wall, guarded)
  return { signed_in_at: wall, fresh_until: later(wall, freshFor) }
}

/** Returns the user of the session in these cookies. Returns undefined if the session is unknown or has expired. */
export const personBehind = async (find: FindCredential, { config, hasher, clock }: Platform, cookies: string | undefined): Promise<UserActor | undefined> => {
  const value = readCookie(cookies, cookieName(config))
  if (value === undefined) return undefined
  try {
    const { actor } = await resolve(find, { environment: config.environment, hasher, clock }, new Secret(value), ['session'])
    return actor.kind === 'user' ? actor : undefined
  } catch (error) {
    if (error instanceof InvalidToken) return undefined
    throw error
  }
}

/** Returns the current role of each session in each of its organizations, by `session_id organization_id`. */
export const findSessionRoles = (db: Db, session_ids: readonly string[], now: Date): Promise<ReadonlyMap<string, string>> =>
  findRoles(db, session_ids, closedStatuses, now)

/** Opens a session for an authenticated user. */
export const startSession = async (tx: Tx, platform: Platform, user_id: string, { second_factor = false } = {}): Promise<Secret> => {
  const wall = tx.clock.wall()
  const id = newId(wall)
  const session = newToken('session', platform.config.environment)
  await insertSession(tx, { id, user_id, created_at: wall, expires_at: later(wall, sessionLife), second_factor })
  await addCredential(tx, platform.hasher, session, { kind: 'session', subject_id: id, organization_id: null })
  return session
}

export const signOut = async (tx: Tx, session_id: string): Promise<void> => {
  await dropCredentials(tx, 'session', session_id)
  await deleteSession(tx, session_id)
}

/** Ends every session of a user. Tokens and apps keep working. */
export const signOutEverywhere = (tx: Tx, user_id: string): Promise<void> => deleteSessionsOf(tx, user_id)

/** Ends every session of a user and opens one with a second factor. A session from before the factor was enabled may belong to an attacker. */
export const restartSessions = async (tx: Tx, platform: Platform, user_id: string): Promise<Secret> => {
  await signOutEverywhere(tx, user_id)
  return startSession(tx, platform, user_id, { second_factor: true })
}

/** Creates a user. Email addresses are unique regardless of case. A unique index enforces this for concurrent requests. */
export const createUser = async (tx: Tx, { email, is_operator }: { email: string; is_operator: boolean }) => {
  const wall = tx.clock.wall()
  try {
    return await insertUser(tx, {
      id: newId(wall),
      created_at: wall,
      modified_at: null,
      deleted_at: null,
      email,
      email_verified: false,
      avatar_url: null,
      is_operator,
      blocked_at: null,
    })
  } catch (error) {
    if (!isUniqueViolation(error, 'users_email')) throw error
    throw new InvalidRequest({ loc: ['body', 'email'], msg: 'A person with this address already exists.', type: 'value_error', input: email })
  }
}

/** Combines the code with the id of its request before hashing, so that the code is valid for that request only. */
const bound = (id: string, code: Secret) => new Secret(`sign-in:${id}:${code.reveal()}`)
