import { isEventCost, largestEventNumber, plainDecimal, type EventMetadata, type EventMetadataInput, type Invalid } from '@bursar/contract'
import { parseForWriting, pathKey, rawNumber, type RawNumber } from '../../../kernel/exact-json.ts'

/** The metadata of an event as it is stored: numbers are exact, and texts of language models are apart. */
export interface StoredMetadata {
  readonly metadata: Readonly<Record<string, unknown>>
  readonly prompt: string | null
  readonly response: string | null
}

/** The numbers of the request that a double cannot hold, as they were written. */
export type ExactNumbers = ReadonlyMap<string, string>

/**
 * Prepares the metadata of the event at `path` for the database. Adds a problem for each number that is too large, and if the exact
 * cost has too many digits.
 */
export const storeMetadata = (sent: EventMetadataInput, path: readonly (string | number)[], numbers: ExactNumbers, problems: Invalid[]): StoredMetadata => {
  for (const key in sent) {
    const value = sent[key]
    if (typeof value === 'number' && Math.abs(value) > largestEventNumber)
      problems.push({
        loc: ['body', ...path, 'metadata', key],
        msg: `Expected a number from -${largestEventNumber} to ${largestEventNumber}. Send a larger number as text, which meters do not add up.`,
        type: 'value_error',
        input: value,
      })
  }
  const { _cost, _llm } = sent
  // Most events have nothing else to change, so they are not copied.
  if (!_cost && !_llm && numbers.size === 0) return { metadata: sent, prompt: null, response: null }
  const metadata: Record<string, unknown> = { ...sent }
  for (const [key, value] of Object.entries(sent)) {
    const exact = typeof value === 'number' ? numbers.get(pathKey([...path, 'metadata', key])) : undefined
    if (exact !== undefined) metadata[key] = rawNumber(exact)
  }
  if (_cost) {
    const amount = numbers.get(pathKey([...path, 'metadata', '_cost', 'amount'])) ?? String(_cost.amount)
    if (isEventCost(amount)) metadata['_cost'] = { amount: rawNumber(plainDecimal(amount)!), currency: _cost.currency }
    else
      problems.push({
        loc: ['body', ...path, 'metadata', '_cost', 'amount'],
        msg: 'Expected an amount in cents with at most 5 digits before the decimal point and 12 after it.',
        type: 'value_error',
        input: amount,
      })
  }
  if (!_llm) return { metadata, prompt: null, response: null }
  const { prompt = null, response = null, ...llm } = _llm
  return { metadata: { ...metadata, _llm: llm }, prompt, response }
}

/** Returns the metadata of a stored event for an answer. Numbers keep all their digits. */
export const presentMetadata = (stored: string, texts: { readonly prompt: string | null; readonly response: string | null }): EventMetadata => {
  const { _cost, _llm, ...others } = parseForWriting(stored) as {
    _cost?: { amount: number | RawNumber; currency: string }
    _llm?: EventMetadata['_llm']
  } & Record<string, string>
  return {
    ...others,
    ...(_cost ? { _cost: { amount: plainDecimal(textOf(_cost.amount))!, currency: _cost.currency } } : {}),
    ...(_llm
      ? { _llm: { ..._llm, ...(texts.prompt === null ? {} : { prompt: texts.prompt }), ...(texts.response === null ? {} : { response: texts.response }) } }
      : {}),
  }
}

const textOf = (value: number | RawNumber): string => (typeof value === 'number' ? String(value) : value.rawJSON)

/** Returns the label of an event: the value that the selector of its type names, else the label of the type. */
export const labelOf = (label: string, selector: string | null, metadata: EventMetadata): string => {
  if (selector === null) return label
  const key = selector.replace(/^metadata\./, '')
  const walk = (value: unknown, [first, ...rest]: readonly string[]): unknown => {
    if (first === undefined) return value
    return typeof value === 'object' && value !== null && Object.hasOwn(value, first) ? walk((value as Record<string, unknown>)[first], rest) : undefined
  }
  const found = walk(metadata, [key]) ?? walk(metadata, key.split('.'))
  if (typeof found === 'string') return found === '' ? label : found
  if (typeof found === 'number' || typeof found === 'boolean') return String(found)
  return typeof found === 'object' && found !== null && 'rawJSON' in found ? String(found.rawJSON) : label
}
