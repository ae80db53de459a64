import { InvalidRequest, type User } from '@bursar/contract'
import type { UserActor } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newCode, newToken, sameText, Secret } from '../../../kernel/secrets.ts'
import { days, later, minutes } from '../../../platform/clock.ts'
import { readSwitches } from '../../../platform/postgres/migrations.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { replaceCode } from '../../../platform/postgres/codes.sql.ts'
import { isTwin, type Db, type Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { addCredential, dropCredentials } from '../credentials/credentials.sql.ts'
import { InvalidToken, resolve } from '../credentials/credentials.ts'
import { purgePending } from '../factors/factors.sql.ts'
import { beginPending, completePending, hasFactor } from '../factors/factors.ts'
import { isInvited } from '../invitations/invitations.sql.ts'
import { cookieName, readCookie } from './cookies.ts'
import {
  deleteCode,
  deleteExpired,
  deleteSession,
  findCode,
  findUser,
  findUserByEmail,
  insertSession,
  insertUser,
  markVerified,
  setCodeHash,
  spendTry,
} from './sessions.sql.ts'

const codeLife = 15 * minutes
const tries = 5
const codesPerHour = 10
export const sessionLife = 31 * days

/** Asks for a code. What happens, and how long it takes, is the same for every address; whether mail goes out is decided later. */
export const requestCode = async (tx: Tx, email: string): Promise<void> => {
  const user = await findUserByEmail(tx, email)
  const wall = tx.clock.wall()
  // To the address we know, not the spelling that was typed: a look-alike must not receive somebody's code.
  const code = { id: newId(wall), email: user?.email ?? email, created_at: wall, expires_at: later(wall, codeLife), tries_left: tries }
  // Ten codes an hour, five tries each: nobody's mailbox is flooded, and nobody guesses a code that way.
  if (await replaceCode(tx, 'sign_in_codes', code, codesPerHour)) await enqueue(tx, 'mail.sign_in_code', { sign_in_code_id: code.id })
}

/** Makes the code, keeps its hash, and mails it, if the address may sign in: run twice, the second code replaces the first. */
export const mailCode = async ({ db, transact, gateways, platform }: Means, { sign_in_code_id }: { sign_in_code_id: string }): Promise<void> => {
  const request = await findCode(db, sign_in_code_id)
  if (!request || request.expires_at <= platform.clock.wall() || !(await mayEnter(db, request.email, platform.clock.wall()))) return
  const code = newCode()
  await transact((tx) => setCodeHash(tx, request.id, platform.hasher.hash(bound(request.id, code))))
  await gateways.mail.send({
    to: request.email,
    subject: 'Your sign-in code',
    text: `${code.reveal()} is your code to sign in to Bursar.\n\nIt works once, for 15 minutes. If you did not ask for it, you can ignore this message.`,
  })
}

/** People we know, people who were invited, and, where the operator has opened sign-up, everyone. */
const mayEnter = async (db: Db, email: string, now: Date): Promise<boolean> => {
  const user = await findUserByEmail(db, email)
  if (user) return user.blocked_at === null
  return (await isInvited(db, email, now)) || (await readSwitches(db)).sign_up_open
}

/** Removes sessions and codes that have run out, so that nothing expired is kept. */
export const purge = async ({ transact, platform }: Means): Promise<void> =>
  transact(async (tx) => {
    const wall = platform.clock.wall()
    await deleteExpired(tx, wall)
    await purgePending(tx, wall)
  })

/** A person who is in, or one whose second factor is still to come. */
export type SignedIn = { readonly user: User; readonly session: Secret } | { readonly pending: Secret }

/**
 * Trades a code for a session. Each attempt costs one of five tries before the code is looked at, so that parallel
 * guesses cannot outrun the count; the answer to a refusal is one and the same. Null: refused, and the try is spent.
 */
export const signIn = async (tx: Tx, platform: Platform, email: string, code: Secret): Promise<SignedIn | null> => {
  const wall = tx.clock.wall()
  const request = await spendTry(tx, email, wall)
  if (!request || !platform.hasher.candidates(bound(request.id, code)).some((hash) => sameText(hash, request.hash ?? ''))) return null
  await deleteCode(tx, request.id)
  const user = (await findUserByEmail(tx, email)) ?? (await createUser(tx, { email, is_operator: false }))
  if (user.blocked_at) return null
  await markVerified(tx, user.id, wall)
  if (await hasFactor(tx, user.id)) return { pending: await beginPending(tx, platform, user.id) }
  return { user: { ...user, email_verified: true }, session: await startSession(tx, platform, user.id) }
}

/** The second half of a sign-in. Null: refused, and the try is spent. */
export const signInFully = async (tx: Tx, platform: Platform, pending: Secret, typed: string) => {
  const user_id = await completePending(tx, platform, pending, typed)
  const user = user_id === null ? undefined : await findUser(tx, user_id)
  if (!user || user.blocked_at) return null
  return { user, session: await startSession(tx, platform, user.id, { second_factor: true }) }
}

/** Who is signed in in the browser that sent these cookies; nobody, when its session is unknown or over. */
export const personBehind = async (db: Db, { config, hasher, clock }: Platform, cookies: string | undefined): Promise<UserActor | undefined> => {
  const value = readCookie(cookies, cookieName(config))
  if (value === undefined) return undefined
  try {
    const { actor } = await resolve(db, { environment: config.environment, hasher, clock }, new Secret(value), ['session'])
    return actor.kind === 'user' ? actor : undefined
  } catch (error) {
    if (error instanceof InvalidToken) return undefined
    throw error
  }
}

/** Opens a session for a person who has proved who they are. */
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

/** One person per address, whatever its case: the unique key decides between two at once. */
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
    if (!isTwin(error, 'users_email')) throw error
    throw new InvalidRequest({ loc: ['body', 'email'], msg: 'There is already a person with this address.', type: 'value_error', input: email })
  }
}

/** The code counts only together with the request it was made for. */
const bound = (id: string, code: Secret) => new Secret(`sign-in:${id}:${code.reveal()}`)
