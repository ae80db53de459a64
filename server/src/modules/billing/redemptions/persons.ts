import type { Hasher } from '../../../kernel/secrets.ts'

/** A person by their address, however they spell it: case, what stands behind a plus, and dots where the host ignores them, do not make another one. */
export const personKey = (hasher: Hasher, email: string): string => {
  const [local = '', host = ''] = email.toLowerCase().split('@')
  const plain = local.split('+')[0]!
  return hasher.digest(`person ${/^(gmail|googlemail)\.com$/.test(host) ? plain.replaceAll('.', '') : plain}@${host}`)
}

/** A card, whoever holds it. */
export const cardKey = (hasher: Hasher, fingerprint: string): string => hasher.digest(`card ${fingerprint}`)
