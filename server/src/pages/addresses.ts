/** As many as one press invites: more would be refused by the budget of the portal half-way. */
export const atOnce = 50

/** What was pasted, as a list: each address once, and each piece that holds none. */
export interface Pasted {
  readonly addresses: readonly string[]
  readonly others: readonly string[]
}

/**
 * Reads e-mail addresses out of anything that people paste: separated by commas, semicolons, lines or blanks, with names
 * before them, in angle brackets or quotes. Whether an address is one is for the API to say; what has no @ is none.
 */
export const readAddresses = (text: string): Pasted => {
  const addresses = new Map<string, string>()
  const others = new Set<string>()
  for (const piece of text.split(/[,;\n\r\t|]+/)) {
    const words = piece.split(/\s+/).map((word) => word.replace(/^(mailto:)?[<("'[]*(mailto:)?/i, '').replace(/[>)"'\].:]*$/, ''))
    const found = words.filter((word) => word.includes('@'))
    for (const address of found) if (!addresses.has(address.toLowerCase())) addresses.set(address.toLowerCase(), address)
    const rest = piece.trim()
    if (found.length === 0 && rest !== '') others.add(rest.slice(0, 100))
  }
  return { addresses: [...addresses.values()], others: [...others] }
}
