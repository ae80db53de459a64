import { connectPaymentAccount } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { readBooks } from './books.ts'
import { openStripeStandIn } from './stripe.ts'
import { exchange, type openClock, type World } from './world.ts'

/** The buyer's card. With `answer_lost`, the card pays, but the processor's answer to the confirmation is lost. */
export type Purse = 'pays' | 'answer_lost'

/** Opens the test processor behind the interface that it shares with Stripe, so that the same tests run with both. */
export const openTestTill = async () => ({
  settings: {},
  connect: async (_api: Client, _organization_id: string) => undefined,
  token: (purse: Purse): string => (purse === 'pays' ? 'tok_visa' : 'tok_charge_then_timeout'),
  books: (world: World) => readBooks(world),
  tell: async (_api: { readonly port: number }): Promise<unknown> => undefined,
  close: async () => undefined,
})

export const openStripeTill = async (clock: ReturnType<typeof openClock>) => {
  const standIn = await openStripeStandIn(clock)
  const account = standIn.account()
  const unheard = new Set<string>()
  let address = ''
  /** Returns true at the first confirmation with an `answer_lost` token, and false after that. The simulated fault is a timeout. */
  const loses = (token: unknown) => typeof token === 'string' && unheard.delete(token)
  standIn.misbehave(({ params }) => (loses(params.confirmation_token) ? 'timed_out' : undefined))
  return {
    standIn,
    account,
    settings: { BURSAR_STRIPE_API_BASE: standIn.url },
    connect: async (api: Client, organization_id: string): Promise<void> => {
      const { secret_key, publishable_key, webhook_secret } = account
      const { events_url } = await api.call(connectPaymentAccount, { params: { id: organization_id }, body: { secret_key, publishable_key, webhook_secret } })
      address = new URL(events_url).pathname
    },
    token: (purse: Purse): string => {
      const token = account.token('pm_card_visa')
      if (purse === 'answer_lost') unheard.add(token)
      return token
    },
    books: async (_world: World) => account.books(),
    /** Posts the Stripe events that are due to the webhook address of the account. */
    tell: ({ port }: { readonly port: number }): Promise<unknown> => standIn.deliver((_, headers, body) => exchange(port, 'POST', address, headers, body)),
    close: standIn.close,
  }
}

export type Till = Awaited<ReturnType<typeof openTestTill>> | Awaited<ReturnType<typeof openStripeTill>>
