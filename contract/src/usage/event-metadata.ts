import { z } from 'zod'
import { named, requestLimits, resource, scalar, uuid } from '../kit/index.ts'

/**
 * Returns the shortest text of a decimal number, without an exponent: `+07.50` becomes `7.5`, and `1e-7` becomes `0.0000001`.
 * Undefined if the text is not a decimal number of a reasonable size.
 */
export const plainDecimal = (text: string): string | undefined => {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = /^([+-]?)(\d*)(?:\.(\d*))?(?:e([+-]?\d{1,3}))?$/i.exec(text) ?? []
  const shift = Number(exponent)
  if (whole + fraction === '' || text.length > 100 || Math.abs(shift) > 100) return undefined
  const digits = '0'.repeat(Math.max(0, -shift - whole.length)) + whole + fraction + '0'.repeat(Math.max(0, shift - fraction.length))
  const point = Math.max(whole.length + shift, 0)
  const before = digits.slice(0, point).replace(/^0+/, '') || '0'
  let after = digits.slice(point)
  while (after.endsWith('0')) after = after.slice(0, -1)
  return `${sign === '-' ? '-' : ''}${before}${after === '' ? '' : `.${after}`}`
}

/**
 * True if a text is an amount of cents that an event may have: at most five digits before the decimal point and twelve
 * after it. An event therefore costs less than 1,000 dollars.
 */
export const isEventCost = (text: string): boolean => /^-?\d{1,5}(\.\d{1,12})?$/.test(plainDecimal(text) ?? '')

const costMessage = 'Expected an amount in cents with at most 5 digits before the decimal point and 12 after it.'

const CostInput = resource('CostMetadataInput', {
  amount: z
    .union([
      z.number().refine((value) => isEventCost(String(value)), costMessage),
      z
        .string()
        .max(64)
        .regex(/^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/, costMessage)
        .refine(isEventCost, costMessage),
    ])
    .describe('The cost in cents, as a number or as decimal text. At most 5 digits before the decimal point and 12 after it. It is stored exactly.'),
  currency: z.literal('usd').describe('The currency of the cost.'),
})

const Cost = resource('CostMetadata', {
  amount: z.string().describe('The cost in cents, as exact decimal text.'),
  currency: z.string().describe('The currency of the cost.'),
})

const tokens = () => z.int().min(0).max(Number.MAX_SAFE_INTEGER)

/** Maximum number of characters of a prompt or a response. */
const longestText = 1_000_000

/** A call of a language model. */
export const LLMMetadata = resource('LLMMetadata', {
  vendor: z.string().max(500).describe('The company that runs the model.'),
  model: z.string().max(500).describe('The name of the model.'),
  prompt: z.string().max(longestText).nullish().describe('The text that the model was given. It is erased with the customer.'),
  response: z.string().max(longestText).nullish().describe('The text that the model returned. It is erased with the customer.'),
  input_tokens: tokens().describe('Tokens of the prompt.'),
  cached_input_tokens: tokens().optional().describe('Tokens of the prompt that the vendor took from its cache.'),
  output_tokens: tokens().describe('Tokens of the response.'),
  total_tokens: tokens().describe('All tokens of the call.'),
})

/** The largest absolute value of a number in the metadata. Sums of such numbers stay far below the largest double. */
export const largestEventNumber = 1e30

const reservation = () => uuid().optional().describe('The reservation of units that this usage settles.')

/** Scalars under any key, besides the id of a reservation and two records with their own form. */
type WithScalars<Cost, LLM> = {
  [key: string]: string | number | boolean | Cost | LLM | undefined
  _cost?: Cost | undefined
  _llm?: LLM | undefined
  _reservation?: string | undefined
}
type LLMMetadata = z.output<typeof LLMMetadata>

/** The data of an event as the seller sends it: scalars under any key, a cost, and a call of a language model. */
export type EventMetadataInput = WithScalars<z.output<typeof CostInput>, LLMMetadata>
export const EventMetadataInput = z
  .object({ _cost: CostInput.optional(), _llm: LLMMetadata.optional(), _reservation: reservation() })
  .catchall(scalar(1, 500))
  .meta({ id: 'EventMetadataInput', maxProperties: requestLimits.record_keys }) as unknown as z.ZodType<EventMetadataInput, EventMetadataInput>

export type EventMetadata = WithScalars<z.output<typeof Cost>, LLMMetadata>
export const EventMetadata = z
  .object({ _cost: Cost.optional(), _llm: LLMMetadata.optional(), _reservation: reservation() })
  .catchall(z.union([z.string(), z.int(), z.number(), z.boolean()]))
  .meta({ id: 'EventMetadataOutput' }) as unknown as z.ZodType<EventMetadata, EventMetadata>

export const EventSource = named('EventSource', z.enum(['system', 'user']))
export type EventSource = z.output<typeof EventSource>
