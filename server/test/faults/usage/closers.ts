import { revokeSubscription, updateSubscription } from '@bursar/contract'
import type { Dice } from '../kills/plan.ts'
import type { Sale, Subscriber } from './sale.ts'
import { pause, type Sender } from './sender.ts'

/** Subscriptions that each lane ends during the traffic. The others end after it. */
const revokedByLane = 2

/** Ends usage periods until `end` is called: changes plans, and revokes a few subscriptions. Each of two lanes has its own subscriptions. */
export const openClosers = ({ client, insist }: Sender, { subscribers, daily }: Pick<Sale, 'subscribers' | 'daily'>, dice: Dice) => {
  const figures = { changes: 0, revoked: 0 }
  const life = { ending: false }
  const live = new Set(subscribers.filter(({ until }) => until === null))
  let number = 0

  const revoke = async (subscriber: Subscriber) => {
    live.delete(subscriber)
    const { subscription_id: id } = subscriber
    const headers = { 'idempotency-key': `revoke-${id}` }
    if (await insist('subscriptions:revoke', () => client.call(revokeSubscription, { params: { id }, headers }))) figures.revoked++
  }
  /** Changes to the other plan. The change waits until the current period is paid. */
  const change = async ({ subscription_id: id }: Subscriber, product_id: string, proration_behavior: 'invoice' | 'prorate') => {
    const headers = { 'idempotency-key': `change-${++number}` }
    const body = { product_id, proration_behavior }
    const answer = await insist('subscriptions:update', () => client.call(updateSubscription, { params: { id }, body, headers }))
    if (answer) figures.changes++
    return answer !== undefined
  }
  const close = async (own: readonly Subscriber[]) => {
    const plans = new Map(own.map((subscriber) => [subscriber, 0]))
    let revoked = 0
    while (!life.ending) {
      await pause(100 + dice.below(400))
      const left = own.filter((subscriber) => live.has(subscriber))
      const subscriber = left[dice.below(left.length)]
      if (subscriber === undefined) continue
      if (revoked < revokedByLane && dice.below(10) === 0) {
        revoked++
        await revoke(subscriber)
        continue
      }
      if (!subscriber.pays) continue
      const to = 1 - plans.get(subscriber)!
      if (await change(subscriber, daily[to]!, dice.below(3) === 0 ? 'prorate' : 'invoice')) plans.set(subscriber, to)
    }
  }
  const all = [...live]
  const running = Promise.all([0, 1].map((lane) => close(all.filter((_, at) => at % 2 === lane))))
  return {
    figures,
    /** Starts no new changes, and finishes the pending ones. */
    end: async () => {
      life.ending = true
      await running
    },
    /** Ends all subscriptions that are left. */
    revokeAll: () => Promise.all([...live].map(revoke)),
  }
}
