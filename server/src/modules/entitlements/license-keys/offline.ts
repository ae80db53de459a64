import { createHash, createPrivateKey, generateKeyPairSync, sign, type JsonWebKey } from 'node:crypto'
import { invalidAt, InvalidRequest, LicenceClaims, licenceType, NotPermitted } from '@bursar/contract'
import type { Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { Secret } from '../../../kernel/secrets.ts'
import { days, minutes, seconds } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { encode } from '../../../platform/encode.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { loadBenefits, loadProductRows } from '../../catalog/index.ts'
import { clockOf } from '../../customers/index.ts'
import { findGrant } from '../grants/grants.sql.ts'
import { activationOf } from './license-keys.ts'
import { lockKey, productOf, type LicenseKeyRow } from './license-keys.sql.ts'
import { holdSigningKeys, insertSigningKey, signingKeys, type SigningKeyRow } from './offline.sql.ts'
import { loadKeys, presentActivation } from './presenting.ts'
import { whyUnusable } from './using.ts'

/** How long others may keep the published keys: none signs before everybody can have seen it. */
export const keysMayBeCached = 5 * minutes
/** For how long a licence counts without anybody being asked. */
const trusted = 30 * days

type Sealing = Pick<Platform, 'sealer'>

const addSigningKey = async (tx: Tx, { sealer }: Sealing): Promise<void> => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const { x } = publicKey.export({ format: 'jwk' })
  // The thumbprint of RFC 7638: the same key has the same name everywhere.
  const kid = createHash('sha256')
    .update(JSON.stringify({ crv: 'Ed25519', kty: 'OKP', x }))
    .digest('base64url')
  await insertSigningKey(tx, {
    kid,
    created_at: tx.clock.wall(),
    public_jwk: { kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', kid, x: x! },
    sealed: sealer.seal(new Secret(JSON.stringify(privateKey.export({ format: 'jwk' }))), kid),
  })
}

/** There is always a key that signs licences. */
export const ensureLicenceKeys = async (tx: Tx, platform: Sealing): Promise<void> => {
  await holdSigningKeys(tx)
  if ((await signingKeys(tx)).length === 0) await addSigningKey(tx, platform)
}

/** Another key signs from now on, as soon as everybody can have seen it; those before stay published. */
export const rotateLicenceKeys = async (tx: Tx, platform: Sealing): Promise<void> => {
  await holdSigningKeys(tx)
  await addSigningKey(tx, platform)
}

export const publishedLicenceKeys = async (db: Db): Promise<SigningKeyRow['public_jwk'][]> => (await signingKeys(db)).map(({ public_jwk }) => public_jwk)

/** The newest that everybody can have seen; the first of all, where it is the only one. */
const signing = async (db: Db, now: Date): Promise<SigningKeyRow> => {
  const keys = await signingKeys(db)
  const key = keys.find(({ created_at }) => now.getTime() - created_at.getTime() >= keysMayBeCached) ?? keys.at(-1)
  if (!key) throw new Error('there is always a key that signs licences')
  return key
}

/**
 * A licence that an application checks by itself: what was bought, for which place, until when. It says what is so now,
 * and is to be trusted for a while and no longer than its key. The key is held, so that nothing is signed for one that
 * has just been revoked.
 */
export const signLicence = async (
  wall: Tx,
  reach: Reach,
  platform: Pick<Platform, 'sealer' | 'config'>,
  found: LicenseKeyRow,
  activation_id: string | null,
): Promise<{ token: string; expires_at: Date }> => {
  const key = await lockKey(wall, found)
  const { organization_id } = key
  const tx = await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id: key.buyer_customer_id }))
  const loaded = (await loadKeys(tx, reach, [key]))[0]!
  const unusable = await whyUnusable(tx, loaded)
  if (unusable !== null) throw new NotPermitted(`${unusable} Nothing is signed for it.`)
  const activation = activation_id === null ? null : await activationOf(tx, key, activation_id)
  if (activation === null && key.limit_activations !== null)
    throw new InvalidRequest(
      invalidAt(
        ['body', 'activation_id'],
        `This license key has at most ${key.limit_activations} activations: activate it, and name the activation that the licence is for.`,
      ),
    )
  const now = tx.clock.wall()
  // What is left of the key in its own time, from this moment on the wall: there the application will look.
  const left = key.expires_at === null ? trusted : Math.min(trusted, key.expires_at.getTime() - tx.clock.business().getTime())
  const iat = Math.floor(now.getTime() / seconds)
  const exp = Math.floor((now.getTime() + left) / seconds)
  const claims: LicenceClaims = {
    iss: platform.config.public_url.origin,
    aud: organization_id,
    sub: key.id,
    jti: newId(now),
    iat,
    exp,
    customer_id: loaded.customer.id,
    license_key: {
      display_key: key.display_key,
      limit_activations: key.limit_activations,
      limit_usage: key.limit_usage,
      expires_at: key.expires_at,
    },
    activation: activation && presentActivation(activation),
    ...(await boughtWith(tx, reach, key)),
  }
  const signer = await signing(tx, now)
  const secret = createPrivateKey({ key: JSON.parse(platform.sealer.open(signer.sealed, signer.kid).reveal()) as JsonWebKey, format: 'jwk' })
  const part = (text: string) => Buffer.from(text).toString('base64url')
  const text = `${part(JSON.stringify({ alg: 'EdDSA', typ: licenceType, kid: signer.kid }))}.${part(encode(LicenceClaims, claims))}`
  return { token: `${text}.${sign(null, Buffer.from(text), secret).toString('base64url')}`, expires_at: new Date(exp * seconds) }
}

const boughtWith = async (
  db: Db,
  reach: Reach,
  { organization_id: tenant, benefit_id, grant_id }: LicenseKeyRow,
): Promise<Pick<LicenceClaims, 'benefit' | 'product'>> => {
  const [benefit] = await loadBenefits(db, [{ tenant, id: benefit_id }])
  const product_id = await productOf(db, (await findGrant(db, reach, grant_id))!)
  const [product] = product_id === undefined ? [] : await loadProductRows(db, [{ tenant, id: product_id }])
  return { benefit: benefit!, product: product ?? null }
}
