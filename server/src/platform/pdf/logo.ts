import { createHash } from 'node:crypto'
import { deflateSync, inflateSync } from 'node:zlib'
import { sizeOf, typeOf } from '../../kernel/pictures.ts'

/** A picture as a PDF contains it. */
export interface Printable {
  readonly width: number
  readonly height: number
  readonly color: 'DeviceRGB' | 'DeviceGray'
  readonly filter: 'FlateDecode' | 'DCTDecode'
  readonly data: Buffer
}

/**
 * Limits of a logo in a document. The pixels and the decoded bytes of a PNG are bounded, because a small file may decode to any
 * size. Decoding blocks the process.
 */
const limits = { pixels: 2_000_000, decoded_bytes: 32 * 1024 * 1024, jpeg_bytes: 256 * 1024 } as const
/** Maximum size of a printed PNG in pixels: 288 for an inch of the largest logo. Larger ones are made smaller. */
const most = { width: 600, height: 160 } as const

/** Results of the logos that were used last, by checksum. A seller's documents have the same logo. Each result has at most 300 KB. */
const known = new Map<string, Printable | undefined>()
const mostKnown = 32

/**
 * Converts a logo for a document. The same bytes always give the same result, and are decoded once. Undefined for pictures that cannot be
 * printed: other types than PNG and JPEG, damaged and too large ones, and a logo that is invisible on white paper.
 */
export const printable = (bytes: Buffer): Printable | undefined => {
  const checksum = createHash('sha256').update(bytes).digest('hex')
  const result = known.has(checksum) ? known.get(checksum) : converted(bytes)
  // The map keeps the order of use.
  known.delete(checksum)
  known.set(checksum, result)
  if (known.size > mostKnown) known.delete(known.keys().next().value!)
  return result
}

const converted = (bytes: Buffer): Printable | undefined => {
  try {
    const type = typeOf(bytes)
    return type === 'image/png' ? fromPng(bytes) : type === 'image/jpeg' ? fromJpeg(bytes) : undefined
  } catch {
    // Reading past the end of a damaged picture throws.
    return undefined
  }
}

/** Readers of PDFs decode JPEG themselves, so its bytes stay as they are. CMYK is left out, because its colours are ambiguous. */
const fromJpeg = (bytes: Buffer): Printable | undefined => {
  const size = sizeOf('image/jpeg', bytes)
  if (!size || bytes.length > limits.jpeg_bytes) return undefined
  const { precision, components } = frameOf(bytes)
  if (precision !== 8 || (components !== 1 && components !== 3)) return undefined
  return { ...size, color: components === 1 ? 'DeviceGray' : 'DeviceRGB', filter: 'DCTDecode', data: bytes }
}

/** Reads the frame header of a JPEG, which `sizeOf` has found. */
const frameOf = (bytes: Buffer): { precision: number; components: number } => {
  for (let at = 2; ; at += bytes[at + 1] === 0xff ? 1 : 2 + bytes.readUInt16BE(at + 2)) {
    const marker = bytes.readUInt8(at + 1)
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker))
      return { precision: bytes.readUInt8(at + 4), components: bytes.readUInt8(at + 9) }
  }
}

interface Header {
  readonly width: number
  readonly height: number
  readonly depth: number
  readonly color: number
  readonly interlaced: boolean
}
interface Png {
  readonly header: Header
  readonly palette: Buffer | undefined
  readonly transparency: Buffer | undefined
  readonly data: Buffer
}

/** Samples of a pixel by colour type of PNG, and the bit depths that the type may have. */
const colors: Readonly<Record<number, { readonly samples: number; readonly depths: readonly number[] }>> = {
  0: { samples: 1, depths: [1, 2, 4, 8, 16] },
  2: { samples: 3, depths: [8, 16] },
  3: { samples: 1, depths: [1, 2, 4, 8] },
  4: { samples: 2, depths: [8, 16] },
  6: { samples: 4, depths: [8, 16] },
}

/** The passes of a PNG: first column, first row, and the steps between columns and rows. */
const passes = {
  plain: [[0, 0, 1, 1]],
  interlaced: [
    [0, 0, 8, 8],
    [4, 0, 8, 8],
    [0, 4, 4, 8],
    [2, 0, 4, 4],
    [0, 2, 2, 4],
    [1, 0, 2, 2],
    [0, 1, 1, 2],
  ],
} as const

const readPng = (bytes: Buffer): Png | undefined => {
  const width = bytes.readUInt32BE(16)
  const height = bytes.readUInt32BE(20)
  const [depth = 0, color = 0, compression, filtering, interlace = 0] = bytes.subarray(24, 29)
  if (width === 0 || height === 0 || compression !== 0 || filtering !== 0 || interlace > 1 || !colors[color]?.depths.includes(depth)) return undefined
  const chunks = new Map<string, Buffer[]>()
  for (let at = 8; at + 12 <= bytes.length;) {
    const length = bytes.readUInt32BE(at)
    const type = bytes.toString('latin1', at + 4, at + 8)
    if (at + 12 + length > bytes.length) return undefined
    const same = chunks.get(type)
    const chunk = bytes.subarray(at + 8, at + 8 + length)
    if (same) same.push(chunk)
    else chunks.set(type, [chunk])
    at += 12 + length
  }
  const data = chunks.get('IDAT')
  const palette = chunks.get('PLTE')?.[0]
  if (!data || (color === 3 && !palette)) return undefined
  return { header: { width, height, depth, color, interlaced: interlace === 1 }, palette, transparency: chunks.get('tRNS')?.[0], data: Buffer.concat(data) }
}

const fromPng = (bytes: Buffer): Printable | undefined => {
  const png = readPng(bytes)
  if (!png) return undefined
  const { width, height, depth, color, interlaced } = png.header
  if (width * height > limits.pixels) return undefined
  const bits = depth * colors[color]!.samples
  const parts = (interlaced ? passes.interlaced : passes.plain)
    .map(([left, top, across, down]) => ({ left, top, across, down, columns: Math.ceil((width - left) / across), rows: Math.ceil((height - top) / down) }))
    .filter(({ columns, rows }) => columns > 0 && rows > 0)
  const size = parts.reduce((sum, { columns, rows }) => sum + rows * (1 + Math.ceil((columns * bits) / 8)), 0)
  if (size > limits.decoded_bytes) return undefined
  // Throws if more bytes come out than the header promises.
  const raw = inflateSync(png.data, { maxOutputLength: size })
  if (raw.length !== size) return undefined
  const canvas = openCanvas(width, height)
  const pixelAt = readPixels(png)
  let at = 0
  for (const { left, top, across, down, columns, rows } of parts) {
    const length = Math.ceil((columns * bits) / 8)
    let before = Buffer.alloc(length)
    for (let row = 0; row < rows; row++) {
      const line = raw.subarray(at + 1, at + 1 + length)
      unfilter(raw[at]!, line, before, Math.max(1, bits >> 3))
      for (let column = 0; column < columns; column++) canvas.add(left + column * across, top + row * down, pixelAt(line, column))
      before = line
      at += 1 + length
    }
  }
  return canvas.print()
}

/** Reverses the filter of a line, in place. */
const unfilter = (filter: number, line: Buffer, before: Buffer, step: number): void => {
  if (filter > 4) throw new Error('unknown filter')
  for (let at = 0; at < line.length; at++) {
    const left = at < step ? 0 : line[at - step]!
    const up = before[at]!
    const corner = at < step ? 0 : before[at - step]!
    line[at]! += filter === 1 ? left : filter === 2 ? up : filter === 3 ? (left + up) >> 1 : filter === 4 ? nearestOf(left, up, corner) : 0
  }
}
/** The predictor of Paeth. */
const nearestOf = (left: number, up: number, corner: number): number => {
  const guess = left + up - corner
  const [toLeft, toUp, toCorner] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)]
  return toLeft <= toUp && toLeft <= toCorner ? left : toUp <= toCorner ? up : corner
}

type Pixel = [red: number, green: number, blue: number, alpha: number]

/** Returns a function that reads one pixel of a line, as eight bits each of red, green, blue and alpha. The result is reused. */
const readPixels = ({ header: { depth, color }, palette, transparency }: Png): ((line: Buffer, column: number) => Pixel) => {
  const { samples } = colors[color]!
  const pixel: Pixel = [0, 0, 0, 255]
  const sample = (line: Buffer, at: number): number => {
    if (depth === 8) return line[at]!
    if (depth === 16) return line.readUInt16BE(at * 2)
    const bit = at * depth
    return (line[bit >> 3]! >> (8 - depth - (bit & 7))) & ((1 << depth) - 1)
  }
  const scale = 255 / ((1 << depth) - 1)
  // One colour of a picture without alpha may be transparent.
  const clear = (color === 0 || color === 2) && transparency ? Array.from({ length: samples }, (_, part) => transparency.readUInt16BE(part * 2)) : undefined
  return (line, column) => {
    const first = column * samples
    if (color === 3) {
      const index = sample(line, first)
      if (index * 3 + 2 >= palette!.length) throw new Error('no such colour')
      for (let part = 0; part < 3; part++) pixel[part] = palette![index * 3 + part]!
      pixel[3] = transparency?.[index] ?? 255
      return pixel
    }
    const isGrey = samples < 3
    for (let part = 0; part < 3; part++) pixel[part] = sample(line, first + (isGrey ? 0 : part)) * scale
    pixel[3] = samples % 2 === 0 ? sample(line, first + samples - 1) * scale : 255
    if (clear?.every((value, part) => sample(line, first + part) === value)) pixel[3] = 0
    return pixel
  }
}

/** Opens a white canvas of at most the printed size. A pixel of the canvas is the mean of the pixels that fall on it. */
const openCanvas = (width: number, height: number) => {
  const shrink = Math.min(1, most.width / width, most.height / height)
  const [wide, high] = [Math.max(1, Math.round(width * shrink)), Math.max(1, Math.round(height * shrink))]
  const sums = new Float64Array(wide * high * 3)
  const counts = new Uint32Array(wide * high)
  return {
    add: (x: number, y: number, pixel: Pixel): void => {
      const at = Math.floor((y * high) / height) * wide + Math.floor((x * wide) / width)
      const alpha = pixel[3] / 255
      for (let part = 0; part < 3; part++) sums[at * 3 + part]! += pixel[part]! * alpha + 255 * (1 - alpha)
      counts[at]! += 1
    },
    /** Undefined if almost nothing is visible on white. */
    print: (): Printable | undefined => {
      const pixels = Buffer.alloc(sums.length)
      let darkest = 255
      for (let at = 0; at < sums.length; at++) {
        const value = Math.round(sums[at]! / counts[Math.floor(at / 3)]!)
        darkest = Math.min(darkest, value)
        pixels[at] = value
      }
      return darkest > 230 ? undefined : { width: wide, height: high, color: 'DeviceRGB', filter: 'FlateDecode', data: deflateSync(pixels) }
    },
  }
}
