import { createHash, createPrivateKey, generateKeyPairSync, sign, type JsonWebKey } from 'node:crypto'
import { invalidAt, InvalidRequest, LicenceClaims, licenceType, NotPermitted, ResourceNotFound } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { Secret } from '../../../kernel/secrets.ts'
import { days, minutes, seconds } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { encode } from '../../../platform/encode.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { loadBenefits, loadProductRows } from '../../catalog/index.ts'
import { findGrant } from '../records/grants.sql.ts'
import { loadUse, lockKey, productOf, type LicenseKeyRow } from '../records/license-keys.sql.ts'
import { holdSigningKeys, insertSigningKey, signingKeys, type SigningKeyRow } from './offline.sql.ts'
import { presentActivation } from './presenting.ts'
import { whyUnusable } from './using.ts'

/** Cache lifetime of the published signing keys. A new key signs only after this time, when every cached list contains the key. */
export const keysMayBeCached = 5 * minutes
/** Validity of a licence. An application can verify the licence offline during this time. */
const trusted = 30 * days

type Sealing = Pick<Platform, 'sealer'>

const addSigningKey = async (tx: Tx, { sealer }: Sealing): Promise<void> => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const { x } = publicKey.export({ format: 'jwk' })
  // Thumbprint of RFC 7638, so that a key has the same id everywhere.
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

/** Creates the first licence signing key if there is none. */
export const ensureLicenceKeys = async (tx: Tx, platform: Sealing): Promise<void> => {
  await holdSigningKeys(tx)
  if ((await signingKeys(tx)).length === 0) await addSigningKey(tx, platform)
}

/** Adds a signing key. The new key signs only after `keysMayBeCached`. Older keys stay published. */
export const rotateLicenceKeys = async (tx: Tx, platform: Sealing): Promise<void> => {
  await holdSigningKeys(tx)
  await addSigningKey(tx, platform)
}

export const publishedLicenceKeys = async (db: Db): Promise<SigningKeyRow['public_jwk'][]> => (await signingKeys(db)).map(({ public_jwk }) => public_jwk)

/** Returns the newest signing key that is at least `keysMayBeCached` old. Returns the oldest key if all are newer. */
const signing = async (db: Db, now: Date): Promise<SigningKeyRow> => {
  const keys = await signingKeys(db)
  const key = keys.find(({ created_at }) => now.getTime() - created_at.getTime() >= keysMayBeCached) ?? keys.at(-1)
  if (!key) throw new Error('no active key to sign licences')
  return key
}

/**
 * Signs a licence that an application verifies offline. The licence states the purchase, the activation and the expiry
 * as of now. It expires after 30 days, or earlier with its license key. Locks the license key, so that no licence is
 * signed for a key that was just revoked.
 */
export const signLicence = async (
  wall: Tx,
  scope: TenantScope,
  platform: Pick<Platform, 'sealer' | 'config'>,
  found: LicenseKeyRow,
  activation_id: string | null,
): Promise<{ token: string; expires_at: Date }> => {
  const key = await lockKey(wall, found)
  const { organization_id } = key
  const use = await loadUse(wall, scope, key, activation_id)
  const tx = await inTimeOf(wall, use.clock)
  const unusable = whyUnusable(tx, use)
  if (unusable !== null) throw new NotPermitted(`${unusable} No licence can be signed for it.`)
  const activation = activation_id === null ? null : use.activation
  if (activation === undefined) throw new ResourceNotFound()
  if (activation === null && key.limit_activations !== null)
    throw new InvalidRequest(
      invalidAt(
        ['body', 'activation_id'],
        `This license key limits activations to ${key.limit_activations}. Activate it first, and give the activation_id of the licence.`,
      ),
    )
  const now = tx.clock.wall()
  // The key's remaining validity is measured by the customer's clock, which may be a test clock. It is added to the
  // wall clock, because applications check the wall clock.
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
    customer_id: use.loaded.customer.id,
    license_key: {
      display_key: key.display_key,
      limit_activations: key.limit_activations,
      limit_usage: key.limit_usage,
      expires_at: key.expires_at,
    },
    activation: activation && presentActivation(activation),
    ...(await boughtWith(tx, scope, key)),
  }
  const signer = await signing(tx, now)
  const secret = createPrivateKey({ key: JSON.parse(platform.sealer.open(signer.sealed, signer.kid).reveal()) as JsonWebKey, format: 'jwk' })
  const part = (text: string) => Buffer.from(text).toString('base64url')
  const text = `${part(JSON.stringify({ alg: 'EdDSA', typ: licenceType, kid: signer.kid }))}.${part(encode(LicenceClaims, claims))}`
  return { token: `${text}.${sign(null, Buffer.from(text), secret).toString('base64url')}`, expires_at: new Date(exp * seconds) }
}

const boughtWith = async (
  db: Db,
  scope: TenantScope,
  { organization_id: tenant, benefit_id, grant_id }: LicenseKeyRow,
): Promise<Pick<LicenceClaims, 'benefit' | 'product'>> => {
  const [benefit] = await loadBenefits(db, [{ tenant, id: benefit_id }])
  const product_id = await productOf(db, (await findGrant(db, scope, grant_id))!)
  const [product] = product_id === undefined ? [] : await loadProductRows(db, [{ tenant, id: product_id }])
  return { benefit: benefit!, product: product ?? null }
}
