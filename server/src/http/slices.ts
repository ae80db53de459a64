import { isUtf8 } from 'node:buffer'
import { setImmediate } from 'node:timers/promises'
import { InvalidRequest, requestLimits, type Invalid, type Operation } from '@bursar/contract'
import { ExactNumber, mantissaOf, mayExceedDoubles, parseExactly, pathKey } from '../kernel/exact-json.ts'
import { inspect, parse, readJson, type Input } from './parse.ts'
import { refuseSizes } from './sizes.ts'

/** Work that is done before other requests get a turn: elements of the list, and bytes of the body. */
const turn = { elements: 500, bytes: 128 * 1024, scanned: 512 * 1024 }
/** Maximum number of elements of the long list. */
const longestList = requestLimits.events_per_request
/** Maximum number of characters of a number. PostgreSQL stores at most 16,383 digits after the decimal point. */
const longestNumber = 60

/** A body whose long list was read in slices. */
export interface Sliced {
  readonly body: unknown
  /** The numbers that a double cannot hold, as they were written. The key is made of the path in the body by `pathKey`. */
  readonly numbers: ReadonlyMap<string, string>
  /** The index after the last element of each slice. Empty if the body has no list. */
  readonly ends: readonly number[]
}

/** The position of the long list in the body: its brackets, and the bounds of its elements. */
interface Place {
  readonly opens: number
  closes: number
  /** The number of elements. Only the bounds of allowed elements are stored, because a body may have millions. */
  count: number
  readonly elements: (readonly [start: number, end: number])[]
}

/**
 * Reads a JSON body with one long list. Parses the list in slices and yields to other requests in between, because a
 * body of several megabytes would hold the event loop for a long time. All limits of other bodies apply, but this list may be longer than other lists.
 */
export const readSliced = async (bytes: Buffer, list: string): Promise<Sliced> => {
  if (!isUtf8(bytes)) throw new InvalidRequest({ loc: ['body'], msg: 'The body is not UTF-8.', type: 'value_error' })
  const place = await findList(bytes, list)
  if (place && place.count > longestList)
    throw new InvalidRequest({
      loc: ['body', list],
      msg: `A request has at most ${longestList} ${list}. Received ${place.count}. Send them in several requests.`,
      type: 'too_long',
    })
  const rest = place ? Buffer.concat([bytes.subarray(0, place.opens + 1), bytes.subarray(place.closes)]) : bytes
  if (rest.length > requestLimits.body_bytes)
    throw new InvalidRequest({
      loc: ['body'],
      msg: `Besides the list ${list}, the body has at most ${requestLimits.body_bytes} bytes. Received ${rest.length}.`,
      type: 'too_long',
    })
  const body = readJson(rest)
  const numbers = new Map<string, string>()
  const ends: number[] = []
  if (!place) return { body, numbers, ends }
  const elements: unknown[] = []
  const problems: Invalid[] = []
  for (let at = 0; at < place.elements.length;) {
    const from = at
    const [start] = place.elements[from]!
    while (at < place.elements.length && at - from < turn.elements && (at === from || place.elements[at]![1] - start <= turn.bytes)) {
      refuseElement(bytes, list, at, place.elements[at]!)
      at++
    }
    const text = bytes.toString('utf8', start, place.elements[at - 1]![1])
    const isExact = mayExceedDoubles(text)
    const parsed = parseSlice(text, start, isExact)
    if (parsed.length !== at - from) throw invalidJson(start)
    // In UTF-8 text without escaped characters, no string has a NUL or an unpaired surrogate. The sizes were checked before.
    const needsInspection = text.includes('\\u')
    for (let index = 0; index < parsed.length; index++) {
      const element = isExact ? keepNumbers(parsed[index], ['body', list, from + index], numbers, problems) : parsed[index]
      elements.push(element)
      if (needsInspection) inspect(element, ['body', list, from + index], problems)
    }
    if (problems.length > 0) throw new InvalidRequest(problems.slice(0, requestLimits.reported_problems))
    ends.push(at)
    await setImmediate()
  }
  return { body: { ...(body as object), [list]: elements }, numbers, ends }
}

const invalidJson = (at: number) =>
  new InvalidRequest({ loc: ['body', at], msg: `The body is not valid JSON. The error is at byte ${at} or after it.`, type: 'json_invalid' })

const parseSlice = (text: string, start: number, isExact: boolean): unknown[] => {
  try {
    return (isExact ? parseExactly(`[${text}]`) : JSON.parse(`[${text}]`)) as unknown[]
  } catch {
    throw invalidJson(start)
  }
}

const refuseElement = (bytes: Buffer, list: string, index: number, [start, end]: readonly [number, number]): void => {
  if (end - start > requestLimits.body_bytes)
    throw new InvalidRequest({
      loc: ['body', list, index],
      msg: `One element has at most ${requestLimits.body_bytes} bytes. Received ${end - start}.`,
      type: 'too_long',
    })
  refuseSizes(bytes.subarray(start, end), ['body', list, index])
}

/** Replaces exact numbers with doubles, which the schemas accept, and records the texts of the numbers. */
const keepNumbers = (value: unknown, path: (string | number)[], numbers: Map<string, string>, problems: Invalid[]): unknown => {
  if (value instanceof ExactNumber) {
    if (value.text.length > longestNumber || (value.nearest === 0 && !/^-?0[.0]*$/.test(mantissaOf(value.text))))
      problems.push({ loc: path, msg: `Expected a number of at most ${longestNumber} characters that is not closer to 0 than 1e-300.`, type: 'value_error' })
    numbers.set(pathKey(path.slice(1)), value.text)
    return value.nearest
  }
  if (typeof value !== 'object' || value === null) return value
  for (const [key, item] of Object.entries(value))
    (value as Record<string, unknown>)[key] = keepNumbers(item, [...path, Array.isArray(value) ? Number(key) : key], numbers, problems)
  return value
}

const addElement = (place: Place, start: number, end: number): void => {
  if (++place.count <= longestList) place.elements.push([start, end])
}

/** Finds the list and its elements. Undefined if the body is not a record that has the list as a field. */
const findList = async (bytes: Buffer, list: string): Promise<Place | undefined> => {
  const name = Buffer.from(JSON.stringify(list))
  let place: Place | undefined
  let [depth, key, open, start, next] = [0, '', false, -1, turn.scanned]
  for (let at = 0; at < bytes.length; at++) {
    if (at >= next) {
      next = at + turn.scanned
      await setImmediate()
    }
    const byte = bytes[at]!
    if (byte <= 0x20) continue
    if (depth === 0 && byte !== 0x7b) return undefined
    const inList = open && depth === 2
    if (inList && byte !== 0x2c && byte !== 0x5d && start === -1) start = at
    if (byte === 0x22) {
      const from = at
      for (at++; at < bytes.length && bytes[at] !== 0x22; at++) if (bytes[at] === 0x5c) at++
      if (depth === 1) key = name.equals(bytes.subarray(from, at + 1)) ? list : ''
    } else if (byte === 0x7b || byte === 0x5b) {
      if (depth === 1 && byte === 0x5b && key === list) {
        // The parser uses the last of several fields with the same name. Two lists would be read differently here and there.
        if (place) throw new InvalidRequest({ loc: ['body', list], msg: `Send the list ${list} once.`, type: 'value_error' })
        place = { opens: at, closes: -1, count: 0, elements: [] }
        open = true
      }
      depth++
    } else if (byte === 0x7d || byte === 0x5d) {
      if (inList && byte === 0x5d) {
        if (start !== -1) addElement(place!, start, at)
        else if (place!.count > 0) throw invalidJson(at)
        place!.closes = at
        ;[open, start] = [false, -1]
      }
      depth--
    } else if (byte === 0x2c && inList) {
      if (start === -1) throw invalidJson(at)
      addElement(place!, start, at)
      start = -1
    }
  }
  if (open) throw invalidJson(bytes.length)
  return place
}

/** Validates the input as `parse` does, but the long list of the body in the slices in which `readSliced` has read it. */
export const parseInSlices = async (operation: Operation, list: string, input: Input, ends: readonly number[]): Promise<ReturnType<typeof parse>> => {
  const body = input.body as Record<string, unknown> | undefined
  const elements = body?.[list]
  if (!Array.isArray(elements) || ends.length <= 1) return parse(operation, input)
  const problems: Invalid[] = []
  let leftOut = 0
  const parsed: unknown[] = []
  let first: ReturnType<typeof parse> | undefined
  for (const [at, end] of ends.entries()) {
    const from = ends[at - 1] ?? 0
    try {
      const slice = parse(operation, { ...input, body: { ...body, [list]: elements.slice(from, end) } })
      first ??= slice
      for (const element of (slice.body as Record<string, unknown[]>)[list]!) parsed.push(element)
    } catch (error) {
      if (!(error instanceof InvalidRequest)) throw error
      leftOut += error.leftOut
      for (const problem of error.problems) {
        const { loc } = problem
        const inList = loc[0] === 'body' && loc[1] === list && typeof loc[2] === 'number'
        // Problems outside of the list are the same for each slice.
        if (!inList && from > 0) continue
        if (problems.length >= requestLimits.reported_problems) leftOut++
        else problems.push(inList ? { ...problem, loc: ['body', list, (loc[2] as number) + from, ...loc.slice(3)] } : problem)
      }
    }
    await setImmediate()
  }
  if (problems.length > 0) throw new InvalidRequest(problems, leftOut)
  return { ...first!, body: { ...(first!.body as object), [list]: parsed } }
}
