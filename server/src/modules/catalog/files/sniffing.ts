/** What begins so is of this type, whatever its name says. */
const beginnings: readonly (readonly [string, (bytes: Buffer) => boolean])[] = [
  ['image/jpeg', (bytes) => bytes.subarray(0, 3).equals(Buffer.from([0xff, 0xd8, 0xff]))],
  ['image/png', (bytes) => bytes.subarray(0, 8).equals(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]))],
  ['image/gif', (bytes) => ['GIF87a', 'GIF89a'].includes(bytes.toString('latin1', 0, 6))],
  ['image/webp', (bytes) => bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WEBP'],
  ['image/svg+xml', (bytes) => isSvg(bytes)],
]

/** The type of a picture, by how it begins; null where it is none that is known. */
export const typeOf = (beginning: Buffer): string | null => beginnings.find(([, fits]) => fits(beginning))?.[0] ?? null

/** Text whose first element is a picture: after what may stand before one. */
const isSvg = (bytes: Buffer): boolean => {
  try {
    // The last letter may be cut in two.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
    return !text.includes('\0') && /^\s*(<\?xml[^>]*\?>\s*)?((<!--(?:(?!-->)[\s\S])*-->|<!DOCTYPE\s[^>[]*(\[[^\]]*\])?\s*>)\s*)*<svg[\s>/]/i.test(text)
  } catch {
    return false
  }
}
