import type { Flow } from '@bursar/contract'
import type { Payments } from '../../gateways/payments/payments.ts'
import type { Page, PageAnswer, Platform } from '../../modules/handlers.ts'
import { bankOf, stripe } from '../processor.ts'
import { flowIn, withFlow, type Visit } from './entering.ts'
import { pagesAt } from './looking.ts'

/** A page of the portal at which a bank may ask, and what follows from the answer. */
interface Asking {
  /** The page that it was asked from. */
  readonly path: string
  /** What is to be paid, in which currency; nothing where a card is only kept. */
  readonly sum?: (visit: Visit) => Promise<{ readonly amount: number; readonly currency: string } | undefined>
  readonly answered: (visit: Visit, intent_id: string, flow: Flow | null) => Promise<PageAnswer>
}

const placeOf = ({ call, seller }: Visit, path: string): string => `/${seller.slug}/portal${path.replace(':id', call.params.id ?? '')}`

/** Of each order its own: whoever pays two at once answers for each. */
const waitingAt = (platform: Platform, { call, seller }: Visit) => bankOf(platform, call.params.id ?? seller.id)

/** Sends whoever is to be asked to their bank; what it waits for is in their browser, and in no address. */
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

/** What the bank asks: in the sandbox on a page of ours, else by the processor's own script. */
export const bankPages = (platform: Platform, payments: Payments, { path, sum, answered }: Asking): Page[] => {
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
      // Where a real bank was asked, it has its own answer.
      if (waiting.key === null) await payments.playBank(waiting.secret, form.get('answer') === 'confirm')
      const answer = await answered(visit, waiting.secret.split('_secret_')[0]!, flowIn(visit.call.query))
      return { ...answer, cookies: [waitingAt(platform, visit).forget()] }
    },
  )
}
