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

interface Size {
  readonly width: number
  readonly height: number
}

/** Returns the width and height of an image in pixels, or undefined if the bytes do not contain them. */
export const sizeOf = (type: string, bytes: Buffer): Size | undefined => {
  const found = readers[type]?.(bytes)
  return found && found.width > 0 && found.height > 0 && Number.isFinite(found.width * found.height) ? found : undefined
}

const readers: Readonly<Record<string, (bytes: Buffer) => Size | undefined>> = {
  'image/png': (bytes) => (bytes.length < 24 ? undefined : { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }),
  'image/gif': (bytes) => (bytes.length < 10 ? undefined : { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) }),
  'image/jpeg': (bytes) => sizeOfJpeg(bytes),
  'image/webp': (bytes) => sizeOfWebp(bytes),
  'image/svg+xml': (bytes) => sizeOfSvg(bytes.toString('utf8')),
}

/** Reads the first frame header (SOF) of a JPEG. The markers DHT, JPG and DAC are in the same range, and are no frames. */
const sizeOfJpeg = (bytes: Buffer): Size | undefined => {
  let at = 2
  while (at + 9 <= bytes.length) {
    if (bytes[at] !== 0xff) return undefined
    const marker = bytes[at + 1]!
    if (marker === 0xff) {
      at += 1
      continue
    }
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker))
      return { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) }
    at += 2 + bytes.readUInt16BE(at + 2)
  }
  return undefined
}

const sizeOfWebp = (bytes: Buffer): Size | undefined => {
  if (bytes.length < 30) return undefined
  switch (bytes.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff }
    case 'VP8L': {
      const bits = bytes.readUInt32LE(21)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
    }
    case 'VP8X':
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 }
    default:
      return undefined
  }
}

/** Reads the size of an SVG from its first element: from `viewBox`, or else from width and height. */
const sizeOfSvg = (text: string): Size | undefined => {
  const first = text.slice(afterProlog(text))
  const tag = first.slice(0, first.indexOf('>') + 1)
  const [, , , width, height] = /\sviewBox\s*=\s*["']\s*(-?[\d.]+)[\s,]+(-?[\d.]+)[\s,]+([\d.]+)[\s,]+([\d.]+)/.exec(tag) ?? []
  if (width !== undefined && height !== undefined) return { width: Number(width), height: Number(height) }
  const plain = (name: string) => new RegExp(`\\s${name}\\s*=\\s*["']([\\d.]+)(px)?["']`).exec(tag)?.[1]
  const [wide, high] = [plain('width'), plain('height')]
  return wide === undefined || high === undefined ? undefined : { width: Number(wide), height: Number(high) }
}
