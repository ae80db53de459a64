import { hash } from 'node:crypto'
import { behaviorOf, TaxUnavailable, type LineQuote, type PlacedQuestion, type ServiceQuestion, type TaxService } from '../../../gateways/tax/tax.ts'
import type { Log } from '../../../platform/log.ts'
import type { Answers, Transact } from '../../../platform/postgres/postgres.ts'

/** The answer of the tax service: a quote, null if the address is not sufficient, or the reason why there is no answer. */
type Answer = LineQuote | TaxUnavailable | null

declare module '../../../platform/postgres/postgres.ts' {
  interface Answers {
    /** Answers of the tax service by the fingerprint of the question. */
    readonly taxes?: ReadonlyMap<string, Answer>
  }
}

/**
 * Thrown inside a transaction that needs quotes of the tax service. The transaction is rolled back, which releases all
 * its locks. `askingTaxService` then asks the service and runs the transaction again.
 */
export class QuoteNeeded extends Error {
  override readonly name = 'QuoteNeeded'
  readonly questions: readonly ServiceQuestion[]
  constructor(questions: readonly ServiceQuestion[]) {
    super('the tax service must be asked before this transaction')
    this.questions = questions
  }
}

/** Completes a question for the tax service. The fingerprint covers every field, so a changed sale never finds an old quote. */
export const serviceQuestion = ({ organization_id, subject, currency, lines, address, tax_id, behavior_option }: PlacedQuestion): ServiceQuestion => {
  const { line1 = null, line2 = null, postal_code = null, city = null, state, country } = address
  const question = {
    organization_id,
    subject,
    currency,
    behavior: behaviorOf({ behavior_option, address }),
    address: { line1, line2, postal_code, city, state, country },
    tax_id: tax_id && { format: tax_id.format, value: tax_id.value },
    lines: lines.map(({ reference, amount, tax_code }) => ({ reference, amount, tax_code })),
  }
  return { ...question, fingerprint: hash('sha256', JSON.stringify(question)) }
}

/**
 * Returns the quote of the tax service for a sale. Uses the known quote if it is for the same question and has not
 * expired. Throws `QuoteNeeded` if the service was not asked yet, and `TaxUnavailable` if it did not answer.
 */
export const serviceQuote = (answers: Answers | undefined, placed: PlacedQuestion, known: { quote: LineQuote; now: Date } | undefined): LineQuote | null => {
  const question = serviceQuestion(placed)
  if (known?.quote.fingerprint === question.fingerprint && new Date(known.quote.expires_at) > known.now) return known.quote
  const answer = answers?.taxes?.get(question.fingerprint)
  if (answer === undefined) throw new QuoteNeeded([question])
  if (answer instanceof TaxUnavailable) throw answer
  return answer
}

/** Maximum number of times that one transaction asks. A preview asks for two orders. An address may change meanwhile. */
const rounds = 5
/** Maximum number of concurrent requests to the tax service for one transaction. */
const atOnce = 8

/**
 * Wraps `transact`, so that a transaction can use the quotes of the tax service. The service is asked only after the
 * transaction was rolled back. No connection and no lock is held while the service is slow.
 */
export const askingTaxService =
  (transact: Transact, service: TaxService | undefined, log: Log): Transact =>
  async (work) => {
    const taxes = new Map<string, Answer>()
    let asked_at: Date | undefined
    for (let round = 1; ; round++)
      try {
        return await transact((tx) => {
          if (taxes.size > 0) return work({ ...tx, answers: { asked_at: asked_at!, taxes } })
          asked_at = tx.clock.wall()
          return work(tx)
        })
      } catch (error) {
        if (!(error instanceof QuoteNeeded)) throw error
        if (round > rounds) throw new TaxUnavailable('the sale changed again each time its tax was quoted')
        const questions = [...new Map(error.questions.map((one) => [one.fingerprint, one])).values()]
        for (let at = 0; at < questions.length; at += atOnce)
          await Promise.all(questions.slice(at, at + atOnce).map(async (one) => taxes.set(one.fingerprint, await ask(service, one, log))))
      }
  }

const ask = async (service: TaxService | undefined, question: ServiceQuestion, log: Log): Promise<Answer> => {
  try {
    if (!service) throw new TaxUnavailable('this deployment has no tax service')
    return await service.quote(question)
  } catch (error) {
    if (!(error instanceof TaxUnavailable)) throw error
    log.warn('tax_unavailable', { organization_id: question.organization_id, error })
    return error
  }
}
