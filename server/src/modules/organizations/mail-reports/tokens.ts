import { Secret, sameText, type Hasher } from '../../../kernel/secrets.ts'

/**
 * The token of a mail: its id with a keyed hash, both in base 36. Some mail servers change the case of addresses, so the token has
 * only digits and lower-case letters. It is part of the return path. The local part of an address has at most 64 characters.
 */
const idLength = 25
const hashLength = 16
const hashDigits = 20
const wellFormed = /^[0-9a-z]{41}$/

const inBase36 = (hex: string, length: number): string => BigInt(`0x${hex}`).toString(36).padStart(length, '0')

const fromBase36 = (text: string): bigint => Array.from(text).reduce((sum, digit) => sum * 36n + BigInt(parseInt(digit, 36)), 0n)

const bound = (id: string) => new Secret(`mail:${id}`)

export const mailToken = (hasher: Hasher, id: string): string =>
  inBase36(id.replaceAll('-', ''), idLength) + inBase36(hasher.hash(bound(id)).slice(0, hashDigits), hashLength)

/** Returns the id of the mail whose token an address or message id contains. Undefined if there is no token, or if it is forged. */
export const readMailToken = (hasher: Hasher, text: string): string | undefined => {
  const at = text.lastIndexOf('@')
  const found = text.slice(Math.max(0, at - idLength - hashLength), Math.max(0, at)).toLowerCase()
  if (!wellFormed.test(found)) return undefined
  const hex = fromBase36(found.slice(0, idLength)).toString(16).padStart(32, '0')
  if (hex.length > 32) return undefined
  const id = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
  const known = hasher.candidates(bound(id)).some((hash) => sameText(inBase36(hash.slice(0, hashDigits), hashLength), found.slice(idLength)))
  return known ? id : undefined
}
