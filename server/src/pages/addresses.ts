import { trimEndOf } from '../kernel/texts.ts'

/** Maximum number of invitations per submitted form. A longer list would exceed the portal's rate limit before its end. */
export const atOnce = 50

/** The parsed text: each address once, and each piece of text that is not an address. */
export interface Pasted {
  readonly addresses: readonly string[]
  readonly others: readonly string[]
}

/**
 * Extracts e-mail addresses from pasted text. Addresses may be separated by commas, semicolons, line breaks or blanks,
 * preceded by names, and in angle brackets or quotes. A word without @ is no address. The API validates all other
 * words.
 */
export const readAddresses = (text: string): Pasted => {
  const addresses = new Map<string, string>()
  const others = new Set<string>()
  for (const piece of text.split(/[,;\n\r\t|]+/)) {
    const words = piece.split(/\s+/).map((word) => trimEndOf(word.replace(/^(mailto:)?[<("'[]*(mailto:)?/i, ''), '>)"\'].:'))
    const found = words.filter((word) => word.includes('@'))
    for (const address of found) if (!addresses.has(address.toLowerCase())) addresses.set(address.toLowerCase(), address)
    const rest = piece.trim()
    if (found.length === 0 && rest !== '') others.add(rest.slice(0, 100))
  }
  return { addresses: [...addresses.values()], others: [...others] }
}
