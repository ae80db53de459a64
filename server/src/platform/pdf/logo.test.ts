import { deflateSync, inflateSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { encodePng, type Drawing } from '../../../test/harness/png.ts'
import { printable } from './logo.ts'

/** Converts a drawing, and returns the colours of its pixels. */
const printed = (drawing: Drawing) => {
  const { width, height, data, color, filter } = printable(encodePng(drawing))!
  expect([color, filter]).toEqual(['DeviceRGB', 'FlateDecode'])
  const bytes = inflateSync(data)
  expect(bytes).toHaveLength(width * height * 3)
  return { width, height, at: (x: number, y: number) => [...bytes.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)] }
}

/** A gradient, in which a wrong filter or a wrong pass shows at once. */
const gradient = (x: number, y: number): [number, number, number, number] => [(x * 7) & 255, (y * 11) & 255, (x * 3 + y * 5) & 255, 255]

test.each([
  ['true colour', { color: 2, depth: 8 }],
  ['true colour with alpha', { color: 6, depth: 8 }],
  ['true colour, 16 bits', { color: 2, depth: 16 }],
  ['true colour with alpha, 16 bits', { color: 6, depth: 16 }],
] as const)('converts a PNG with %s, with every filter, plain and interlaced', (_, kind) => {
  for (const interlaced of [false, true]) {
    const { width, height, at } = printed({ ...kind, width: 37, height: 29, interlaced, pixel: gradient })
    expect([width, height]).toEqual([37, 29])
    for (let y = 0; y < 29; y++) for (let x = 0; x < 37; x++) expect(at(x, y)).toEqual(gradient(x, y).slice(0, 3))
  }
})

test.each([1, 2, 4, 8])('converts grey and palettes of %i bits', (depth) => {
  const levels = 2 ** depth
  const palette = Array.from({ length: levels }, (_, at): [number, number, number] => [at * 3, 255 - at, (at * 17) & 255])
  for (const interlaced of [false, true]) {
    const grey = printed({ color: 0, depth, width: 21, height: 13, interlaced, index: (x, y) => (x + y) % levels })
    const coloured = printed({ color: 3, depth, width: 21, height: 13, interlaced, palette, index: (x, y) => (x * 2 + y) % levels })
    for (let y = 0; y < 13; y++)
      for (let x = 0; x < 21; x++) {
        const level = Math.round((((x + y) % levels) * 255) / (levels - 1))
        expect(grey.at(x, y)).toEqual([level, level, level])
        expect(coloured.at(x, y)).toEqual(palette[(x * 2 + y) % levels])
      }
  }
})

test('draws transparent parts on white: by alpha, by a transparent colour and by the alpha of a palette', () => {
  const half = printed({ color: 6, depth: 8, width: 2, height: 1, pixel: (x) => [0, 0, 0, x === 0 ? 128 : 0] })
  expect([half.at(0, 0), half.at(1, 0)]).toEqual([
    [127, 127, 127],
    [255, 255, 255],
  ])
  const keyed = printed({ color: 2, depth: 8, width: 2, height: 1, clear: [9, 8, 7], pixel: (x) => (x === 0 ? [9, 8, 7, 255] : [9, 8, 6, 255]) })
  expect([keyed.at(0, 0), keyed.at(1, 0)]).toEqual([
    [255, 255, 255],
    [9, 8, 6],
  ])
  const palette: [number, number, number][] = [
    [10, 20, 30],
    [40, 50, 60],
  ]
  const listed = printed({ color: 3, depth: 1, width: 2, height: 1, palette, alphas: [0], index: (x) => x })
  expect([listed.at(0, 0), listed.at(1, 0)]).toEqual([
    [255, 255, 255],
    [40, 50, 60],
  ])
})

test('makes a large logo smaller, as the mean of its pixels', () => {
  const { width, height, at } = printed({ color: 2, depth: 8, width: 1200, height: 320, pixel: (x, y) => [(x + y) % 2 === 0 ? 0 : 200, 40, 40, 255] })
  expect([width, height]).toEqual([600, 160])
  expect(at(300, 80)).toEqual([100, 40, 40])
})

test('leaves out a logo that is invisible on white paper', () => {
  const white = (alpha: number) => printable(encodePng({ color: 6, depth: 8, width: 64, height: 64, pixel: () => [255, 255, 255, alpha] }))
  expect([white(255), white(0)]).toEqual([undefined, undefined])
})

const good = encodePng({ color: 6, depth: 8, width: 8, height: 8, pixel: gradient })
const patched = (at: number, ...bytes: number[]) => {
  const copy = Buffer.from(good)
  Buffer.from(bytes).copy(copy, at)
  return copy
}
const jpeg = (precision: number, components: number, size = 200) =>
  Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0, 0xff, 0xc0, 0, 17, precision, 0, 32, 0, 64, components]), Buffer.alloc(size)])

test.each([
  ['a file that ends early', good.subarray(0, 60)],
  ['only a header', good.subarray(0, 30)],
  ['an unknown colour type', patched(25, 5)],
  ['an impossible bit depth', patched(24, 3)],
  ['no pixels', patched(16, 0, 0, 0, 0)],
  ['an unknown interlace method', patched(28, 2)],
  ['more pixels than the header promises', patched(23, 4)],
  ['fewer pixels than the header promises', patched(23, 9)],
  ['a header that promises a gigabyte', patched(16, 0, 0, 64, 0, 0, 0, 64, 0)],
  ['an unknown filter', encodePng({ color: 6, depth: 8, width: 8, height: 8, pixel: gradient, filter: 5 })],
  ['an index outside the palette', encodePng({ color: 3, depth: 8, width: 2, height: 1, palette: [[1, 2, 3]], index: (x) => x })],
  ['a JPEG in CMYK', jpeg(8, 4)],
  ['a JPEG of twelve bits', jpeg(12, 3)],
  ['a JPEG above the limit', jpeg(8, 3, 256 * 1024)],
  ['a GIF', Buffer.concat([Buffer.from('GIF89a'), Buffer.from([64, 0, 32, 0]), Buffer.alloc(60)])],
  ['an SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"/>')],
  ['nothing', Buffer.alloc(0)],
])('refuses %s', (_, bytes) => expect(printable(bytes)).toBeUndefined())

const large = (height: number) => encodePng({ color: 0, depth: 1, width: 4000, height, index: () => 0, data: deflateSync(Buffer.alloc(height * 501)) })

test('refuses a PNG of more than 2 million pixels, however small it is', () => {
  expect(printable(large(500))).toMatchObject({ width: 600, height: 75 })
  expect(printable(large(501))).toBeUndefined()
})

test('decodes the logo of many documents once, and forgets logos that were not used lately', () => {
  const first = printable(good)
  expect(printable(Buffer.from(good))).toBe(first)
  const other = (at: number) => printable(encodePng({ color: 2, depth: 8, width: 2, height: 1, pixel: () => [at, 0, 0, 255] }))
  for (let at = 0; at < 31; at++) other(at)
  expect(printable(good)).toBe(first)
  for (let at = 0; at < 32; at++) other(at)
  expect(printable(good)).not.toBe(first)
  expect(printable(good)).toEqual(first)
})

test('stops to inflate a small file that becomes large', () => {
  const bomb = encodePng({ color: 6, depth: 8, width: 8, height: 8, pixel: gradient, data: deflateSync(Buffer.alloc(64 * 1024 * 1024)) })
  const before = process.memoryUsage().arrayBuffers
  expect(printable(bomb)).toBeUndefined()
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * 1024 * 1024)
})

test('keeps the bytes of a JPEG, in grey and in colour', () => {
  expect(printable(jpeg(8, 3))).toEqual({ width: 64, height: 32, color: 'DeviceRGB', filter: 'DCTDecode', data: jpeg(8, 3) })
  expect(printable(jpeg(8, 1))).toMatchObject({ color: 'DeviceGray' })
})
