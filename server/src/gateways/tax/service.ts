import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import type { Egress, Incoming } from '../egress/egress.ts'
import { readQuote } from './answers.ts'
import { TaxUnavailable, type TaxService } from './tax.ts'

/** Maximum size of an answer, in bytes. An order with hundreds of lines and several taxes fits. */
const answerBytes = 1024 * 1024

/** Opens the tax service of this deployment, which speaks the protocol in docs/guides/tax.md. Undefined if none is configured. */
export const openTaxService = (config: Config['tax'], egress: Egress, clock: Clock): TaxService | undefined => {
  if (!config) return undefined
  const { url, token, timeout_ms } = config
  const post = async (path: string, body: object, key?: string): Promise<Incoming> => {
    const target = new URL(path, url.href.endsWith('/') ? url : `${url.href}/`).href
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json',
      authorization: `Bearer ${token.reveal()}`,
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    }
    try {
      return await egress.post(target, { headers, body: JSON.stringify(body), timeout_ms, answer_bytes: answerBytes })
    } catch (error) {
      throw new TaxUnavailable(error instanceof Error ? error.message : 'the request failed', { cause: error })
    }
  }
  const succeed = async (path: string, key: string, body: object): Promise<void> => {
    const { status } = await post(path, body, key)
    if (status < 200 || status > 299) throw new TaxUnavailable(`the tax service answered ${path} with the status ${status}`)
  }
  return {
    quote: async (question) => {
      const { status, excerpt } = await post('quotes', question)
      if (status === 422) return null
      if (status !== 200) throw new TaxUnavailable(`the tax service answered a question with the status ${status}`)
      return readQuote(question, excerpt, clock.wall())
    },
    confirm: (sale) => succeed('confirmations', sale.order_id, sale),
    reverse: ({ key, ...reversal }) => succeed('reversals', key, reversal),
  }
}
