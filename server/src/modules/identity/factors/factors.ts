import { accountLimits } from '@bursar/contract'
import { createHmac, randomBytes } from 'node:crypto'
import { newId } from '../../../kernel/ids.ts'
import { newCode, newToken, readCode, Secret } from '../../../kernel/secrets.ts'
import { later, minutes } from '../../../platform/clock.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { addCredential, dropCredentials, findSubject } from '../credentials/credentials.sql.ts'
import {
  dropFactor,
  dropPending,
  findFactor,
  insertPending,
  lockFactor,
  recoveryCodesLeft,
  spendFactorTry,
  spendPendingTry,
  stepFactor,
  storeFactor,
  storeRecoveryCodes,
  takeRecoveryCode,
  weakenSessions,
} from './factors.sql.ts'

const stepSeconds = 30
const digits = 6
const pendingLife = 10 * minutes
const tries = 5
const recoveryCodes = 10
const setupLife = 10 * minutes
const triesPerHour = accountLimits.second_factor_tries_per_user_and_hour

/** A user and the id of the session that the request uses. */
interface Seated {
  readonly user_id: string
  readonly credential_id: string
}

/** Computes the code of a time step (RFC 6238 with SHA-1 and six digits, which every authenticator app supports). */
export const codeAt = (secret: Secret, step: number): string => {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac('sha1', Buffer.from(secret.reveal(), 'base64')).update(counter).digest()
  const at = mac[mac.length - 1]! & 15
  return String((mac.readUInt32BE(at) & 0x7fffffff) % 10 ** digits).padStart(digits, '0')
}

export const stepOf = (now: Date): number => Math.floor(now.getTime() / 1000 / stepSeconds)

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** Encodes bytes in base 32, the format in which users type a secret into an authenticator app. */
export const base32 = (bytes: Buffer): string => {
  let bits = ''
  for (const byte of bytes) bits += byte.toString(2).padStart(8, '0')
  return (bits.match(/.{1,5}/g) ?? []).map((five) => letters[parseInt(five.padEnd(5, '0'), 2)]).join('')
}

/** Returns true if the user has a confirmed second factor. */
export const hasFactor = async (db: Db, user_id: string): Promise<boolean> => (await findFactor(db, user_id))?.confirmed_at != null

export const factorOf = async (db: Db, platform: Platform, person: Seated) => {
  const factor = await findFactor(db, person.user_id)
  const state = factor?.confirmed_at ? ('on' as const) : factor && isBeingSetUp(factor, person, platform.clock.wall()) ? ('pending' as const) : ('off' as const)
  return { state, recovery_left: await recoveryCodesLeft(db, person.user_id) }
}

/** A factor can be confirmed only in the session that its secret was shown in, within ten minutes. Otherwise an attacker could plant a known secret. */
const isBeingSetUp = (factor: { session_id: string; created_at: Date; confirmed_at: Date | null }, person: Seated, now: Date) =>
  factor.confirmed_at === null && factor.session_id === person.credential_id && now.getTime() - factor.created_at.getTime() < setupLife

/** Starts the setup of a second factor. The factor takes effect when the user confirms it with a code. */
export const beginFactor = async (tx: Tx, platform: Platform, person: Seated & { email: string }) => {
  if ((await lockFactor(tx, person.user_id))?.confirmed_at) return null
  const bytes = randomBytes(20)
  await storeFactor(tx, {
    user_id: person.user_id,
    session_id: person.credential_id,
    sealed: platform.sealer.seal(new Secret(bytes.toString('base64')), person.user_id),
    created_at: tx.clock.wall(),
  })
  return describe(platform, person.email, bytes)
}

/** Returns the secret to enter in the authenticator app while the setup is pending. Otherwise returns null. */
export const pendingFactor = async (db: Db, platform: Platform, person: Seated & { email: string }) => {
  const factor = await findFactor(db, person.user_id)
  if (!factor || !isBeingSetUp(factor, person, platform.clock.wall())) return null
  return describe(platform, person.email, Buffer.from(platform.sealer.open(factor.sealed, person.user_id).reveal(), 'base64'))
}

const describe = ({ config }: Platform, email: string, bytes: Buffer) => {
  const secret = base32(bytes)
  const issuer = config.environment === 'sandbox' ? 'Bursar sandbox' : 'Bursar'
  return { secret, uri: `otpauth://totp/${encodeURIComponent(`${issuer}:${email}`)}?secret=${secret}&issuer=${encodeURIComponent(issuer)}` }
}

/** Counts an attempt before the code is compared. Concurrent guesses from all sources share one hourly limit. */
const mayTry = (tx: Tx, user_id: string) => {
  const wall = tx.clock.wall()
  return spendFactorTry(tx, user_id, wall, later(wall, -60 * minutes), triesPerHour)
}

/** Checks an authenticator code against the current and the adjacent time steps. Each code works once. */
const proves = async (tx: Tx, platform: Platform, user_id: string, typed: string): Promise<boolean> => {
  const factor = await lockFactor(tx, user_id)
  if (!factor) return false
  const wall = tx.clock.wall()
  const now = stepOf(wall)
  const secret = platform.sealer.open(factor.sealed, user_id)
  const code = typed.replace(/\s/g, '')
  const step = [now - 1, now, now + 1].find((one) => one > factor.last_step && codeAt(secret, one) === code)
  if (step === undefined) return false
  await stepFactor(tx, user_id, step, wall)
  return true
}

const bound = (user_id: string, code: Secret) => new Secret(`recovery:${user_id}:${code.reveal()}`)

/** Confirms the factor with its first code. Returns the recovery codes for a lost authenticator, or null if the code is wrong. */
export const confirmFactor = async (tx: Tx, platform: Platform, person: Seated, typed: string): Promise<string[] | null> => {
  const { user_id } = person
  const factor = await lockFactor(tx, user_id)
  if (!factor || !isBeingSetUp(factor, person, tx.clock.wall())) return null
  if (!(await mayTry(tx, user_id)) || !(await proves(tx, platform, user_id, typed))) return null
  const codes = Array.from({ length: recoveryCodes }, newCode)
  await storeRecoveryCodes(
    tx,
    user_id,
    codes.map((code) => platform.hasher.hash(bound(user_id, code))),
  )
  return codes.map((code) => code.reveal())
}

/** Checks an authenticator code or a recovery code. Each code works once. */
export const isSecondFactor = async (tx: Tx, platform: Platform, user_id: string, typed: string): Promise<boolean> =>
  (await mayTry(tx, user_id)) &&
  ((await proves(tx, platform, user_id, typed)) || takeRecoveryCode(tx, user_id, platform.hasher.candidates(bound(user_id, readCode(typed)))))

/** Removes the second factor if the code is correct. Sessions of the user lose their second-factor status. */
export const endFactor = async (tx: Tx, platform: Platform, user_id: string, typed: string): Promise<boolean> => {
  if (!(await isSecondFactor(tx, platform, user_id, typed))) return false
  await dropFactor(tx, user_id)
  await weakenSessions(tx, user_id)
  return true
}

/** Stores a pending sign-in: the mailed code was correct, but the second factor is still missing. */
export const beginPending = async (tx: Tx, platform: Platform, user_id: string): Promise<Secret> => {
  const wall = tx.clock.wall()
  const id = newId(wall)
  const secret = newToken('sign_in', platform.config.environment)
  await insertPending(tx, { id, user_id, created_at: wall, expires_at: later(wall, pendingLife), tries_left: tries })
  await addCredential(tx, platform.hasher, secret, { kind: 'sign_in', subject_id: id, organization_id: null })
  return secret
}

/** Completes a pending sign-in with the second factor and returns the user's id. Counts an attempt and returns null if the code is wrong. */
export const completePending = async (tx: Tx, platform: Platform, pending: Secret, typed: string): Promise<string | null> => {
  const subject = await findSubject(tx, platform.hasher, pending)
  if (subject?.kind !== 'sign_in') return null
  const found = await spendPendingTry(tx, subject.subject_id, tx.clock.wall())
  if (!found || !(await isSecondFactor(tx, platform, found.user_id, typed))) return null
  await dropCredentials(tx, 'sign_in', subject.subject_id)
  await dropPending(tx, subject.subject_id)
  return found.user_id
}
