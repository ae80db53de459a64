import { createHash, createPrivateKey, createPublicKey, generateKeyPair, sign, type JsonWebKey } from 'node:crypto'
import { promisify } from 'node:util'
import { Secret } from '../../../kernel/secrets.ts'
import { days, hours, minutes } from '../../../platform/clock.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { holdKeys, insertKey, moveKey, publishedKeys, type KeyRow, type KeyState } from './keys.sql.ts'

/** Time for which clients may cache the published keys. A key signs only after it has been published for this time. */
export const keysMayBeCached = 5 * minutes
/** Time for which a replaced key stays published. It is longer than the lifetime of an id token plus clock skew. */
const retiresAfter = 2 * hours
const rotatesAfter = 30 * days

type Sealing = Pick<Platform, 'sealer'>

const generate = promisify(generateKeyPair)
/** Runs in the thread pool, because signing takes a millisecond. */
const signed = promisify(sign)

const addKey = async (tx: Tx, { sealer }: Sealing, state: KeyState): Promise<void> => {
  const { privateKey } = await generate('rsa', { modulusLength: 2048 })
  const { kty, n, e } = createPublicKey(privateKey).export({ format: 'jwk' })
  // The thumbprint of RFC 7638, which gives the same key the same id everywhere.
  const kid = createHash('sha256').update(JSON.stringify({ e, kty, n })).digest('base64url')
  const wall = tx.clock.wall()
  await insertKey(tx, {
    kid,
    state,
    public_jwk: { kty: kty!, n: n!, e: e!, kid, use: 'sig', alg: 'RS256' },
    sealed: sealer.seal(new Secret(JSON.stringify(privateKey.export({ format: 'jwk' }))), kid),
    created_at: wall,
    changed_at: wall,
  })
}

/** Ensures that there is an `active` key, which signs, and a `next` key. The `next` key is published, but signs only after the next rotation. */
export const ensureKeys = async (tx: Tx, platform: Sealing): Promise<void> => {
  await holdKeys(tx)
  const states = (await publishedKeys(tx)).map(({ state }) => state)
  if (!states.includes('active')) await addKey(tx, platform, 'active')
  if (!states.includes('next')) await addKey(tx, platform, 'next')
}

export type Rotation = 'rotated' | 'too_soon'

/**
 * Makes the `next` key the signing key and creates a new `next` key. The previous signing key stays published. Returns
 * `too_soon` if clients may not have seen the next key yet.
 */
export const rotateKeys = async (tx: Tx, platform: Sealing): Promise<Rotation> => {
  await ensureKeys(tx, platform)
  const keys = await publishedKeys(tx)
  const wall = tx.clock.wall()
  const next = keys.find(({ state }) => state === 'next')!
  if (wall.getTime() - next.changed_at.getTime() < keysMayBeCached) return 'too_soon'
  for (const { kid, state } of keys) if (state === 'active') await moveKey(tx, kid, 'retiring', wall)
  await moveKey(tx, next.kid, 'active', wall)
  await addKey(tx, platform, 'next')
  return 'rotated'
}

/** Rotates the keys monthly, and deletes private keys that are no longer needed. */
export const tendKeys = async ({ transact, platform }: Deps): Promise<void> =>
  transact(async (tx) => {
    await ensureKeys(tx, platform)
    const wall = tx.clock.wall().getTime()
    const keys = await publishedKeys(tx)
    for (const { kid, state, changed_at } of keys)
      if (state === 'retiring' && wall - changed_at.getTime() > retiresAfter) await moveKey(tx, kid, 'retired', tx.clock.wall())
    if (keys.some(({ state, changed_at }) => state === 'active' && wall - changed_at.getTime() > rotatesAfter)) await rotateKeys(tx, platform)
  })

/** Returns the published keys, including their private parts. The signing key is first. */
export const openKeys = async (db: Db, { sealer }: Sealing): Promise<Record<string, string>[]> =>
  (await publishedKeys(db)).map((key: KeyRow) => ({
    ...(JSON.parse(sealer.open(key.sealed!, key.kid).reveal()) as Record<string, string>),
    kid: key.kid,
    use: 'sig',
    alg: 'RS256',
  }))

/** Signs claims as a JSON Web Signature of the given type. A recipient can verify them offline with the published keys. */
export const signClaims = async (
  db: Db,
  { sealer, config }: Pick<Platform, 'sealer' | 'config'>,
  typ: string,
  claims: Readonly<Record<string, unknown>>,
): Promise<string> => {
  const active = (await publishedKeys(db)).find(({ state }) => state === 'active')
  if (!active) throw new Error('no active signing key')
  const key = createPrivateKey({ key: JSON.parse(sealer.open(active.sealed!, active.kid).reveal()) as JsonWebKey, format: 'jwk' })
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const text = `${part({ alg: 'RS256', typ, kid: active.kid })}.${part({ iss: config.public_url.origin, ...claims })}`
  return `${text}.${(await signed('sha256', Buffer.from(text), key)).toString('base64url')}`
}
