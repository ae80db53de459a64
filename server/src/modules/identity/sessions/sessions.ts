import { InvalidRequest, type User } from '@bursar/contract'
import type { UserActor } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newCode, newToken, Secret } from '../../../kernel/secrets.ts'
import { days, later } from '../../../platform/clock.ts'
import { readSwitches } from '../../../platform/migrations/migrations.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { deleteUsedCodes, type Mailbox } from '../../../platform/postgres/codes.sql.ts'
import { isUniqueViolation, type Db, type Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { addCredential, dropCredentials, type FindCredential } from '../credentials/credentials.sql.ts'
import { InvalidToken, resolve } from '../credentials/credentials.ts'
import { purgePending } from '../factors/factors.sql.ts'
import { beginPending, completePending, hasFactor } from '../factors/factors.ts'
import { isInvited } from '../memberships/invitations.sql.ts'
import { codeBrowserOf, keepCodeBrowser, originOf, recogniseBrowser, type Caller } from './browsers.ts'
import { matchCode, requestMailedCode } from './codes.ts'
import { cookieName, readCookie } from './cookies.ts'
import {
  deleteExpired,
  deleteSession,
  deleteSessionsOf,
  findCode,
  findUser,
  findUserByEmail,
  insertSession,
  insertUser,
  markVerified,
  setCodeHash,
} from './sessions.sql.ts'

export const sessionLife = 31 * days

const mailboxOf = (email: string): Mailbox => ({ table: 'sign_in_codes', email })

/**
 * Requests a sign-in code by mail. Response and duration do not reveal whether the address is known or rate limited.
 * The mail job decides whether to send a mail. Returns the cookie that binds the code to the requesting browser.
 */
export const requestCode = async (tx: Tx, platform: Platform, caller: Caller, email: string): Promise<string> => {
  const browser = codeBrowserOf(platform, caller)
  const user = await findUserByEmail(tx, email)
  const mailbox = mailboxOf(email)
  // Sends the code to the stored address, not to the typed one. A look-alike address must not receive the code.
  const id = await requestMailedCode(tx, mailbox, originOf(platform, mailbox, caller, browser), user?.email ?? email)
  if (id !== null) await enqueue(tx, 'mail.sign_in_code', { sign_in_code_id: id })
  return keepCodeBrowser(platform, browser)
}

/** Creates a sign-in code, stores its hash and mails it, if the address may sign in. If the job runs again, the new code replaces the first. */
export const mailCode = async ({ db, transact, gateways, platform }: Deps, { sign_in_code_id }: { sign_in_code_id: string }): Promise<void> => {
  const request = await findCode(db, sign_in_code_id)
  if (!request || request.expires_at <= platform.clock.wall() || !(await mayEnter(db, request.email, platform.clock.wall()))) return
  const code = newCode()
  await transact((tx) => setCodeHash(tx, request.id, platform.hasher.hash(bound(request.id, code))))
  await gateways.mail.send({
    to: request.email,
    subject: 'Your sign-in code',
    text: `${code.reveal()} is your code to sign in to Bursar.\n\nThe code works once, for 15 minutes. If you did not ask for it, you can ignore this message.`,
  })
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
