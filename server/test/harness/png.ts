import { deflateSync } from 'node:zlib'

/** A picture that `encodePng` encodes. Pictures with a palette or in grey without alpha have `index`, others have `pixel`. */
export interface Drawing {
  readonly color: 0 | 2 | 3 | 6
  readonly depth: number
  readonly width: number
  readonly height: number
  readonly interlaced?: boolean
  readonly pixel?: (x: number, y: number) => [red: number, green: number, blue: number, alpha: number]
  readonly index?: (x: number, y: number) => number
  readonly palette?: readonly (readonly [number, number, number])[]
  /** The alpha of the colours of the palette. */
  readonly alphas?: readonly number[]
  /** The colour that is transparent. */
  readonly clear?: readonly number[]
  /** The filter of every line. Without it, the lines take turns. */
  readonly filter?: number
  /** Replaces the encoded pixels. */
  readonly data?: Buffer
}

const passes = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const

const chunk = (type: string, data: Buffer): Buffer => {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(data.length)
  // Our decoder does not read checksums.
  return Buffer.concat([length, Buffer.from(type), data, Buffer.alloc(4)])
}

const paeth = (left: number, up: number, corner: number): number => {
  const guess = left + up - corner
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)]
  return a <= b && a <= c ? left : b <= c ? up : corner
}

/** Encodes a picture as PNG, of any colour type and depth, with all filters and optionally interlaced. */
export const encodePng = ({ color, depth, width, height, interlaced = false, pixel, index, palette, alphas, clear, filter, data }: Drawing): Buffer => {
  const samples = { 0: 1, 2: 3, 3: 1, 6: 4 }[color]
  const step = Math.max(1, (depth * samples) >> 3)
  const lines: Buffer[] = []
  for (const [left, top, across, down] of interlaced ? passes : ([[0, 0, 1, 1]] as const)) {
    const columns = Math.ceil((width - left) / across)
    if (columns <= 0) continue
    let before = Buffer.alloc(Math.ceil((columns * depth * samples) / 8))
    for (let y = top; y < height; y += down) {
      const line = Buffer.alloc(before.length)
      for (let column = 0; column < columns; column++) {
        const x = left + column * across
        const values = index ? [index(x, y)] : pixel!(x, y).slice(0, samples)
        for (const [at, value] of values.entries()) {
          const place = column * samples + at
          // A 16-bit sample has the same byte twice, so that it means the same colour as the 8-bit one.
          if (depth === 16) line.writeUInt16BE(value * 257, place * 2)
          else if (depth === 8) line[place] = value
          else line[(place * depth) >> 3]! |= value << (8 - depth - ((place * depth) & 7))
        }
      }
      const kind = filter ?? lines.length % 5
      const coded = Buffer.alloc(line.length)
      for (let at = 0; at < line.length; at++) {
        const [a, b, c] = [at < step ? 0 : line[at - step]!, before[at]!, at < step ? 0 : before[at - step]!]
        coded[at] = line[at]! - ([0, a, b, (a + b) >> 1, paeth(a, b, c)][kind] ?? 0)
      }
      lines.push(Buffer.concat([Buffer.from([kind]), coded]))
      before = line
    }
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([depth, color, 0, 0, interlaced ? 1 : 0], 8)
  const wide = (values: readonly number[]) => Buffer.from(values.flatMap((value) => [value >> 8, value & 255]))
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    ...(palette ? [chunk('PLTE', Buffer.from(palette.flat()))] : []),
    ...(alphas ? [chunk('tRNS', Buffer.from(alphas))] : clear ? [chunk('tRNS', wide(clear))] : []),
    chunk('IDAT', data ?? deflateSync(Buffer.concat(lines))),
    chunk('IEND', Buffer.alloc(0)),
  ])
}
