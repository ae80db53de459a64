import type { Flow } from '@bursar/views'
import type { Payments } from '../../gateways/payments/payments.ts'
import type { Page, PageAnswer, Platform } from '../../modules/handlers.ts'
import { bankOf, stripe } from '../processor.ts'
import { flowIn, withFlow, type Visit } from './entering.ts'
import { pagesAt } from './looking.ts'

/** A portal page that can lead to a bank's 3-D Secure challenge, and the handler of the result. */
interface BankQuestion {
  /** The page from which the challenge was opened. */
  readonly path: string
  /** Returns the amount to pay. Absent if a card is saved without a payment. */
  readonly sum?: (visit: Visit) => Promise<{ readonly amount: number; readonly currency: string } | undefined>
  readonly answered: (visit: Visit, intent_id: string, flow: Flow | null) => Promise<PageAnswer>
}

const placeOf = ({ call, seller }: Visit, path: string): string => `/${seller.slug}/portal${path.replace(':id', call.params.id ?? '')}`

/** Returns the cookie of the pending bank challenge. Each order has its own, so that two orders can be paid at the same time. */
const waitingAt = (platform: Platform, { call, seller }: Visit) => bankOf(platform, call.params.id ?? seller.id)

/** Redirects to the bank's challenge. The secret of the challenge is stored in a cookie, so that it appears in no URL. */
export const toBank = (
  platform: Platform,
  visit: Visit,
  path: string,
  asked: { readonly client_secret: string; readonly publishable_key: string | null },
  query: Readonly<Record<string, string>> = {},
): PageAnswer => ({
  redirect: `${placeOf(visit, path)}/bank?${new URLSearchParams(query).toString()}`,
  cookies: [waitingAt(platform, visit).keep(asked.client_secret, asked.publishable_key)],
})

/** The pages for the bank's challenge: our own in the sandbox, otherwise the processor's script. */
export const bankPages = (platform: Platform, payments: Payments, { path, sum, answered }: BankQuestion): Page[] => {
  const waitingFor = (visit: Visit) => waitingAt(platform, visit).read(visit.call.request)
  const back = (visit: Visit): PageAnswer => ({ redirect: `${placeOf(visit, path)}${withFlow(flowIn(visit.call.query))}` })
  return pagesAt(
    platform,
    `${path}/bank`,
    async (visit) => {
      const { call, seller } = visit
      const waiting = waitingFor(visit)
      if (waiting === undefined) return back(visit)
      const { secret, key } = waiting
      const { amount, currency } = (await sum?.(visit)) ?? { amount: 0, currency: '' }
      return {
        view: {
          kind: 'bank',
          action: `${placeOf(visit, path)}/bank?${call.query.toString()}`,
          seller: seller.name,
          amount,
          currency,
          processor: key === null ? null : { key, intent_client_secret: secret },
        },
        ...(key === null ? {} : { script: true, outside: stripe }),
      }
    },
    async (visit, form) => {
      const waiting = waitingFor(visit)
      if (waiting === undefined) return back(visit)
      // Only a simulated bank is answered here. A real bank answers through the payment processor.
      if (waiting.key === null) await payments.playBank(waiting.secret, form.get('answer') === 'confirm')
      const answer = await answered(visit, waiting.secret.split('_secret_')[0]!, flowIn(visit.call.query))
      return { ...answer, cookies: [waitingAt(platform, visit).forget()] }
    },
  )
}
