import type { Hasher } from '../../../kernel/secrets.ts'

/**
 * Hashes an e-mail address to one key per person. Ignores case, the part after a plus, and the dots in Gmail addresses.
 */
export const personKey = (hasher: Hasher, email: string): string => {
  const [local = '', host = ''] = email.toLowerCase().split('@')
  const plain = local.split('+')[0]!
  return hasher.digest(`person ${/^(gmail|googlemail)\.com$/.test(host) ? plain.replaceAll('.', '') : plain}@${host}`)
}

/** Hashes the fingerprint of a card. The key is the same for every customer who uses the card. */
export const cardKey = (hasher: Hasher, fingerprint: string): string => hasher.digest(`card ${fingerprint}`)
