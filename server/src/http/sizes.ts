import { InvalidRequest, requestLimits } from '@bursar/contract'

/** An open list or record of the body. */
interface Container {
  readonly record: boolean
  /** Number of commas so far. It is the index of the current element. */
  commas: number
  /** Position of the current key, with its quotation marks. */
  key: readonly [number, number] | undefined
  /** True after the first element or key. */
  filled: boolean
}

/**
 * Refuses a JSON body that is nested too deeply or contains a list or record that is too long. Reads the bytes once,
 * before they are parsed: the parser needs much time for a record with many keys. Ignores other errors of the text. `base`
 * is the place of the bytes in the request.
 */
export const refuseSizes = (bytes: Buffer, base: readonly (string | number)[] = ['body']): void => {
  const open: Container[] = []
  let inner: Container | undefined
  let text: readonly [number, number] = [0, 0]
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (byte <= 0x20) continue
    if (byte === 0x2c) {
      if (inner) inner.commas++
      continue
    }
    if (byte === 0x7d || byte === 0x5d) {
      refuseLength(bytes, open, base)
      open.pop()
      inner = open.at(-1)
      continue
    }
    if (inner) inner.filled = true
    if (byte === 0x22) {
      const start = at
      for (at++; at < bytes.length && bytes[at] !== 0x22; at++) if (bytes[at] === 0x5c) at++
      text = [start, at + 1]
    } else if (byte === 0x3a) {
      if (inner) inner.key = text
    } else if (byte === 0x7b || byte === 0x5b) {
      inner = { record: byte === 0x7b, commas: 0, key: undefined, filled: false }
      if (open.push(inner) > requestLimits.body_depth)
        throw new InvalidRequest({ loc: [...base, at], msg: `The body is nested deeper than ${requestLimits.body_depth} levels.`, type: 'recursion_loop' })
    }
  }
  // The parser would read a record that is never closed up to its end.
  for (; open.length > 0; open.pop()) refuseLength(bytes, open, base)
}

/** Refuses the innermost container if it is too long. Names its place and its length. */
const refuseLength = (bytes: Buffer, open: readonly Container[], base: readonly (string | number)[]): void => {
  const inner = open.at(-1)
  if (!inner) return
  const { record, commas, filled } = inner
  const length = filled ? commas + 1 : 0
  const most = record ? requestLimits.record_keys : requestLimits.list_elements
  if (length <= most) return
  const loc = [...base, ...open.slice(0, -1).map((outer) => (outer.record ? keyOf(bytes, outer.key) : outer.commas))]
  const msg = record ? `A record has at most ${most} keys. Received ${length}.` : `A list has at most ${most} elements. Received ${length}.`
  throw new InvalidRequest({ loc, msg, type: 'too_long' })
}

const keyOf = (bytes: Buffer, place: readonly [number, number] | undefined): string => {
  try {
    return String(JSON.parse(bytes.toString('utf8', ...(place ?? [0, 0]))))
  } catch {
    return ''
  }
}
