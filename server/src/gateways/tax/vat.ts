import { z } from 'zod'
import type { Config } from '../../platform/config.ts'
import type { Log } from '../../platform/log.ts'
import type { Egress } from '../egress/egress.ts'

/** `unverified`: the service gave no definite answer. */
export type VatStatus = 'valid' | 'invalid' | 'unverified'

/** A service that knows the registered VAT numbers of the European Union. Never call it while a transaction is open. */
export interface VatService {
  /** Checks a number with its country prefix, such as `DE136695976`. Never throws: a failure is `unverified`. */
  check(number: string): Promise<VatStatus>
}

const Answer = z.object({ countryCode: z.string(), vatNumber: z.string(), valid: z.boolean() })
const compact = (text: string): string => text.replace(/[^0-9A-Za-z]/g, '').toUpperCase()

/** Returns the definite answer in a response. Throws if there is none, or if it is about another number. */
const readAnswer = (number: string, status: number, text: string): VatStatus => {
  if (status !== 200) throw new Error(`the VAT service answered with the status ${status}`)
  const { countryCode, vatNumber, valid } = Answer.parse(JSON.parse(text))
  if (compact(countryCode + vatNumber) !== number) throw new Error('the VAT service answered about another number')
  return valid ? 'valid' : 'invalid'
}

/** Opens the service that checks VAT numbers. It has the interface of VIES. Undefined if none is configured. */
export const openVatService = (config: Config['vat'], egress: Egress, log: Log): VatService | undefined =>
  config && {
    check: async (number) => {
      try {
        const { status, excerpt } = await egress.post(config.url.href, {
          headers: { 'content-type': 'application/json', accept: 'application/json' },
          body: JSON.stringify({ countryCode: number.slice(0, 2), vatNumber: number.slice(2) }),
          timeout_ms: config.timeout_ms,
        })
        return readAnswer(number, status, excerpt)
      } catch (error) {
        // The error of the parser could contain the number or the name of the company.
        log.warn('vat_unverified', {
          reason: error instanceof z.ZodError || error instanceof SyntaxError ? 'the answer is malformed' : (error as Error).message,
        })
        return 'unverified'
      }
    },
  }
