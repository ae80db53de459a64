/** Signatures (first bytes) of the supported image types. */
const beginnings: readonly (readonly [string, (bytes: Buffer) => boolean])[] = [
  ['image/jpeg', (bytes) => bytes.subarray(0, 3).equals(Buffer.from([0xff, 0xd8, 0xff]))],
  ['image/png', (bytes) => bytes.subarray(0, 8).equals(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]))],
  ['image/gif', (bytes) => ['GIF87a', 'GIF89a'].includes(bytes.toString('latin1', 0, 6))],
  ['image/webp', (bytes) => bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WEBP'],
  ['image/svg+xml', (bytes) => isSvg(bytes)],
]

/** Returns the MIME type of an image by its first bytes, or null if the type is not supported. */
export const typeOf = (beginning: Buffer): string | null => beginnings.find(([, fits]) => fits(beginning))?.[0] ?? null

/** Returns true if the first element of the text is `<svg>`. An XML declaration, comments and a doctype may precede it. */
const isSvg = (bytes: Buffer): boolean => {
  try {
    // The buffer may end in the middle of a UTF-8 character, which stream mode accepts.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
    const first = afterProlog(text)
    return !text.includes('\0') && /^<svg[\s>/]/i.test(text.slice(first, first + 5))
  } catch {
    return false
  }
}

/** Returns the position of the first element: after white space, an XML declaration, comments and a doctype. Reads the text once. */
const afterProlog = (text: string): number => {
  let at = 0
  for (;;) {
    while (at < text.length && /\s/.test(text[at]!)) at++
    const end = endOfPart(text, at)
    if (end === undefined) return at
    at = end
  }
}

/** Returns the end of the part of a prolog that begins at this position, or undefined if none begins there. */
const endOfPart = (text: string, at: number): number | undefined => {
  const after = (closing: string, from: number) => {
    const found = text.indexOf(closing, from)
    return found < 0 ? text.length : found + closing.length
  }
  if (text.startsWith('<!--', at)) return after('-->', at + 4)
  if (text.startsWith('<?xml', at)) return after('?>', at)
  if (!/^<!doctype\s/i.test(text.slice(at, at + 10))) return undefined
  // A doctype may contain declarations in square brackets, which contain further angle brackets.
  const end = after('>', at)
  return text.slice(at, end).includes('[') ? after('>', after(']', at)) : end
}
