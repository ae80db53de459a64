import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hash as digest, randomBytes, timingSafeEqual, type KeyObject } from 'node:crypto'
import { inspect } from 'node:util'
import { crc32 } from 'node:zlib'

/** A value that cannot be printed, logged or serialised by accident. All of these produce `[redacted]`. */
export class Secret {
  readonly #value: string
  constructor(value: string) {
    this.#value = value
  }
  /** Returns the value itself. The caller is responsible for keeping it secret. */
  reveal(): string {
    return this.#value
  }
  toString(): string {
    return '[redacted]'
  }
  toJSON(): string {
    return '[redacted]'
  }
  [inspect.custom](): string {
    return '[redacted]'
  }
}

export type Environment = 'sandbox' | 'production'

/** All token kinds, with their letters in the token and the name under which secret scanners report them. */
export const tokenKinds = {
  organization: { letters: 'oat', report: 'bursar_organization_access_token' },
  personal: { letters: 'pat', report: 'bursar_personal_access_token' },
  session: { letters: 'us', report: 'bursar_user_session_token' },
  invitation: { letters: 'inv', report: 'bursar_organization_invitation_token' },
  customer_session: { letters: 'cst', report: 'bursar_customer_session_token' },
  member_session: { letters: 'mst', report: 'bursar_member_session_token' },
  portal_code: { letters: 'cpc', report: 'bursar_customer_portal_code' },
  email_change: { letters: 'cec', report: 'bursar_customer_email_change_token' },
  seat_invitation: { letters: 'sit', report: 'bursar_seat_invitation_token' },
  oauth_access: { letters: 'at', report: 'bursar_oauth_access_token' },
  oauth_refresh: { letters: 'rt', report: 'bursar_oauth_refresh_token' },
  oauth_code: { letters: 'ac', report: 'bursar_oauth_authorization_code' },
  client_secret: { letters: 'cs', report: 'bursar_oauth_client_secret' },
  client_registration: { letters: 'crt', report: 'bursar_oauth_client_registration_token' },
  checkout: { letters: 'c', report: 'bursar_checkout_client_secret' },
  checkout_link: { letters: 'cl', report: 'bursar_checkout_link_client_secret' },
  sign_in: { letters: 'si', report: 'bursar_sign_in_token' },
} as const
export type TokenKind = keyof typeof tokenKinds

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const randomLength = 37
const checksumLength = 6

export const prefixOf = (kind: TokenKind, environment: Environment): string => `bursar_${environment === 'sandbox' ? 'test_' : ''}${tokenKinds[kind].letters}_`

/** A regular expression, as text, for each token kind. Secret scanners use them. */
export const tokenPatterns = (Object.keys(tokenKinds) as TokenKind[]).map((kind) => ({
  type: tokenKinds[kind].report,
  pattern: `bursar_(?:test_)?${tokenKinds[kind].letters}_[0-9A-Za-z]{${randomLength + checksumLength}}`,
}))

const anyToken = new RegExp(tokenPatterns.map(({ pattern }) => pattern).join('|'), 'g')

/** Redacts every token in a text from an external source before it is stored. */
export const withoutTokens = (text: string): string => text.replace(anyToken, 'redacted')

/**
 * Creates a token: prefix, 37 random characters (220 bits) and a checksum. The checksum distinguishes a typing error
 * from a revoked token.
 */
export const newToken = (kind: TokenKind, environment: Environment): Secret => {
  const random = randomText(randomLength, digits)
  return new Secret(prefixOf(kind, environment) + random + checksum(random))
}

/**
 * Derives a token from another secret. The same keys and the same origin always give the same token. Without the keys
 * the token cannot be distinguished from a random one.
 */
export const derivedToken = (kind: TokenKind, environment: Environment, hasher: Hasher, origin: string): Secret => {
  const seed = BigInt(`0x${hasher.hash(new Secret(`derive:${kind}:${origin}`))}`)
  let rest = seed
  let random = ''
  while (random.length < randomLength) {
    random += digits[Number(rest % 62n)]!
    rest /= 62n
  }
  return new Secret(prefixOf(kind, environment) + random + checksum(random))
}

/** Creates the public id of an OAuth client. The id is not secret, and its prefix makes it recognisable in a log. */
export const newClientId = (environment: Environment): string => {
  const random = randomText(randomLength, digits)
  return `bursar_${environment === 'sandbox' ? 'test_' : ''}ci_${random}${checksum(random)}`
}

/** Returns the CRC32 of the random part in base 62, most significant digit first, padded to six. */
export const checksum = (random: string): string => {
  let rest = crc32(random)
  let text = ''
  while (rest > 0) {
    text = digits[rest % 62]! + text
    rest = Math.floor(rest / 62)
  }
  return text.padStart(checksumLength, '0')
}

export type Reading = { readonly kind: TokenKind; readonly environment: Environment } | 'foreign' | 'damaged'

const shape = /^bursar_(test_)?([a-z]{1,4})_([0-9A-Za-z]{37})([0-9A-Za-z]{6})$/

/** Reads kind and environment from the form of a token. Mistyped or invented tokens are rejected before any database lookup. */
export const readToken = (text: string): Reading => {
  const [, test, letters, random, sum] = shape.exec(text) ?? []
  const kind = (Object.keys(tokenKinds) as TokenKind[]).find((name) => tokenKinds[name].letters === letters)
  if (!kind || random === undefined) return text.startsWith('bursar_') ? 'damaged' : 'foreign'
  if (checksum(random) !== sum) return 'damaged'
  return { kind, environment: test ? 'sandbox' : 'production' }
}

/** Returns the first and last characters of a token: enough to recognise it, too few to use it. */
export const hintOf = (token: Secret): string => {
  const text = token.reveal()
  return `${text.slice(0, text.length - randomLength - checksumLength)}…${text.slice(-4)}`
}

export interface Pepper {
  readonly version: number
  readonly key: Buffer
}

interface PreparedKey {
  readonly version: number
  readonly key: KeyObject
}

/** Prepares the keys once. With a plain buffer, Node would prepare the key again for each hash and each decryption. */
const prepare = (keys: readonly Pepper[]): PreparedKey[] => keys.map(({ version, key }) => ({ version, key: createSecretKey(key) }))

/** Keyed hashes under versioned peppers. New secrets use the first pepper; lookups try all configured ones. */
export class Hasher {
  readonly #peppers: readonly PreparedKey[]
  constructor(peppers: readonly [Pepper, ...Pepper[]]) {
    this.#peppers = prepare(peppers)
  }
  get current(): number {
    return this.#peppers[0]!.version
  }
  hash(secret: Secret): string {
    return keyed(this.#peppers[0]!, secret.reveal())
  }
  /** Returns a keyed digest of a value that is private but not secret, with the version of its key. */
  digest(text: string): string {
    return `${this.current}:${keyed(this.#peppers[0]!, `digest of ${text}`).slice(0, 32)}`
  }
  /** Returns the hashes under which this secret may be stored, newest pepper first. */
  candidates(secret: Secret): string[] {
    return this.#peppers.map((pepper) => keyed(pepper, secret.reveal()))
  }
}

const keyed = (pepper: PreparedKey, text: string) => createHmac('sha256', pepper.key).update(text).digest('hex')

/** Letters and digits that cannot be confused with each other. */
const clear = '23456789ABCDEFGHJKLMNPQRSTUVWXYZ'

/**
 * Creates a code for typing from an e-mail: eight of 32 characters. The rate limit allows a few attempts per hour,
 * which is too few to guess the code.
 */
export const newCode = (): Secret => new Secret(`${randomText(4, clear)}-${randomText(4, clear)}`)

/** Normalises a typed code. */
export const readCode = (typed: string): Secret => {
  const plain = typed.toUpperCase().replace(/[^0-9A-Z]/g, '')
  return new Secret(`${plain.slice(0, 4)}-${plain.slice(4)}`)
}

/** Compares two texts in constant time. */
export const sameText = (a: string, b: string): boolean => timingSafeEqual(digest('sha256', a, 'buffer'), digest('sha256', b, 'buffer'))

/** Returns a random number from 0 up to 1. */
export const chance = (): number => randomBytes(4).readUInt32BE() / 2 ** 32

/** Returns uniformly random text over an alphabet of at most 256 characters. */
export const randomText = (length: number, alphabet: string): string => {
  const fair = 256 - (256 % alphabet.length)
  let text = ''
  while (text.length < length) for (const byte of randomBytes(length * 2)) if (byte < fair && text.length < length) text += alphabet[byte % alphabet.length]!
  return text
}

/**
 * Encrypts secrets that must be shown or used again: AES-256-GCM under a key outside the database, bound to their
 * owner. The key version is stored with the ciphertext. New secrets use the first key; each stored secret is decrypted
 * with the key of its version.
 */
export class Sealer {
  readonly #keys: readonly PreparedKey[]
  constructor(keys: readonly [Pepper, ...Pepper[]]) {
    this.#keys = prepare(keys)
  }
  /** The version of the key that seals new secrets. */
  get current(): number {
    return this.#keys[0]!.version
  }
  seal(secret: Secret, belongsTo: string): string {
    const { version, key } = this.#keys[0]!
    const nonce = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(belongsTo))
    const sealed = Buffer.concat([cipher.update(secret.reveal(), 'utf8'), cipher.final()])
    return `${version}:${Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64')}`
  }
  open(text: string, belongsTo: string): Secret {
    const [version, body = ''] = text.split(':', 2)
    const key = this.#keys.find((one) => String(one.version) === version)
    if (!key) throw new Error(`a stored secret was sealed under key ${version}, which is not configured`)
    const bytes = Buffer.from(body, 'base64')
    const decipher = createDecipheriv('aes-256-gcm', key.key, bytes.subarray(0, 12)).setAAD(Buffer.from(belongsTo)).setAuthTag(bytes.subarray(12, 28))
    return new Secret(decipher.update(bytes.subarray(28), undefined, 'utf8') + decipher.final('utf8'))
  }
}

/** Creates a license key: 122 random bits as a UUID in capitals, after the seller's own prefix. */
export const newLicenseKey = (prefix: string | null): Secret => {
  const bytes = randomBytes(16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex').toUpperCase()
  const parts = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)]
  return new Secret([...(prefix === null ? [] : [prefix]), ...parts].join('-'))
}

/**
 * Pattern of the random part of a license key. It requires at least one letter A to F, so that it does not match other
 * numbers that consist of digits and hyphens.
 */
export const licenseKeyPattern = '(?=[0-9-]*[A-F])[0-9A-F]{8}-[0-9A-F]{4}-4[0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}'

/** Returns the end of a license key, enough to recognise it. */
export const licenseKeyHint = (key: Secret): string => `****-${key.reveal().slice(-6)}`

/** Creates a webhook signing secret in the format of Standard Webhooks. */
export const newWebhookSecret = (): Secret => new Secret(`whsec_${randomBytes(32).toString('base64')}`)

export const webhookSecretPattern = 'whsec_[0-9A-Za-z+/]{43}='

/** Returns the end of a webhook secret, enough to recognise it. */
export const webhookHint = (secret: Secret): string => `whsec_…${secret.reveal().slice(-5)}`
