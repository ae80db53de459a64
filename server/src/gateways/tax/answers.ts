import { z } from 'zod'
import { sum } from '../../kernel/money.ts'
import { taxReasons, type TaxShare } from '../../kernel/taxes.ts'
import { TaxUnavailable, type LineQuote, type ServiceQuestion, type TaxableLine } from './tax.ts'

const whole = 1_000_000

/** The answer of a tax service to a question. */
const Quoted = z.object({
  id: z.string().min(1).max(255),
  /** The fingerprint of the question. An answer to another question is recognized by it. */
  fingerprint: z.string(),
  expires_at: z.iso.datetime({ offset: true }),
  behavior: z.enum(['inclusive', 'exclusive']),
  lines: z.array(
    z.object({
      reference: z.string(),
      taxes: z
        .array(
          z.object({
            jurisdiction: z
              .string()
              .regex(/^[\x20-\x7e]{1,100}$/)
              .regex(/^\S(.*\S)?$/),
            rate: z.int().min(0).max(whole),
            tax_amount: z.int(),
            reason: z.enum(taxReasons),
          }),
        )
        // Zero tax needs a reason, so a line without any tax is no answer.
        .min(1)
        .max(20),
    }),
  ),
})

/** Reads the answer of a tax service. Throws `TaxUnavailable` unless it answers every line once with a plausible tax. */
export const readQuote = (question: ServiceQuestion, text: string, now: Date): LineQuote => {
  const parsed = Quoted.safeParse(readJson(text))
  if (!parsed.success) throw new TaxUnavailable(`the answer is malformed: ${z.prettifyError(parsed.error).slice(0, 500)}`)
  const { id, fingerprint, expires_at, behavior, lines: answered } = parsed.data
  if (fingerprint !== question.fingerprint) throw new TaxUnavailable('the answer is about another question')
  if (new Date(expires_at) <= now) throw new TaxUnavailable('the quote has already expired')
  if (behavior !== question.behavior) throw new TaxUnavailable(`a tax that is ${behavior} was quoted instead of ${question.behavior}`)
  if (answered.length !== question.lines.length) throw new TaxUnavailable(`${answered.length} lines were quoted instead of ${question.lines.length}`)
  const lines = question.lines.map((line) => {
    const found = answered.filter(({ reference }) => reference === line.reference)
    if (found.length !== 1) throw new TaxUnavailable(`the line ${line.reference} was quoted ${found.length} times`)
    const { taxes } = found[0]!
    const problem = problemOf(line, taxes, behavior)
    if (problem) throw new TaxUnavailable(`the line ${line.reference} of ${line.amount}: ${problem}`)
    return { ...line, taxes }
  })
  return { id, fingerprint, expires_at: new Date(expires_at).toISOString(), behavior, lines }
}

const readJson = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/** Returns why the taxes of a line cannot be right. A tax may be lower than its rate, because a part of the price may be exempt. */
const problemOf = ({ amount }: TaxableLine, taxes: readonly TaxShare[], behavior: LineQuote['behavior']): string | undefined => {
  const size = Math.abs(amount)
  for (const { jurisdiction, rate, tax_amount, reason } of taxes) {
    const said = `a tax of ${tax_amount} in ${jurisdiction}`
    if (tax_amount !== 0 && Math.sign(tax_amount) !== Math.sign(amount)) return `${said} has the wrong sign`
    if (tax_amount !== 0 && reason !== 'standard_rated') return `${said} contradicts its reason ${reason}`
    if (Math.abs(tax_amount) > (size * rate) / whole + 1) return `${said} exceeds its rate of ${rate} parts per million`
    // An amount of a few minor units may have no tax after rounding.
    if (tax_amount === 0 && reason === 'standard_rated' && (size * rate) / (whole + rate) >= 1) return `${said} contradicts its rate of ${rate}`
  }
  const rates = sum(taxes.map(({ rate }) => rate))
  if (rates > whole) return `the rates add up to ${rates} parts per million`
  const most = behavior === 'inclusive' ? (size * rates) / (whole + rates) : (size * rates) / whole
  const total = Math.abs(sum(taxes.map(({ tax_amount }) => tax_amount)))
  return total > most + taxes.length ? `the taxes of ${total} exceed the rates of ${rates} parts per million` : undefined
}
