import { ProcessorRefusal, ProcessorSilent, type ProcessorEvent } from '../../../gateways/payments/payments.ts'
import { days, hours, later, minutes } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { extendLease, underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { findAccount, findAccountAnywhere, findByIntents, openAccount, type AccountRow } from './attempts.sql.ts'
import { processorOf } from './attempts.ts'
import { heardUntil, noteHeard, purgeEvents, takeEvents } from './processor-events.sql.ts'

type ReceivedEvent = Omit<ProcessorEvent, 'at'>

/** Records one processor event, like `receiveAll`. */
export const receive = (tx: Tx, account: AccountRow, event: ReceivedEvent): Promise<void> => receiveAll(tx, account, [event])

/**
 * Records processor events of an account, each once, and enqueues the jobs for their objects. An event is only a hint:
 * the job reads the object itself at the processor.
 */
export const receiveAll = async (
  tx: Tx,
  account: AccountRow,
  events: readonly ReceivedEvent[],
  /** Enqueues the job again for a known event, because its first job may have failed after all retries. */ { again = false } = {},
): Promise<void> => {
  if (events.length === 0) return
  const { organization_id, id: account_id } = account
  const taken = await takeEvents(tx, account, events)
  // The processor may send an event twice. One job is enough.
  const news = [...new Map(events.map((event) => [event.id, event])).values()].filter(({ id }) => again || taken.has(id))
  const paid = news.filter(({ kind }) => kind.startsWith('intent.'))
  const payments = paid.length === 0 ? new Map<string, never>() : await findByIntents(tx, account, idsOf(paid))
  for (const { kind, object_id } of news) {
    if (kind === 'refund.updated') await enqueue(tx, 'billing.follow_refund', { organization_id, account_id, processor_refund_id: object_id })
    else if (kind === 'dispute.updated') await enqueue(tx, 'billing.follow_dispute', { organization_id, account_id, processor_dispute_id: object_id })
    else if (kind === 'method.updated') await enqueue(tx, 'billing.follow_method', { organization_id, account_id, processor_method_id: object_id })
    else {
      const payment = payments.get(object_id)
      // The event may arrive before the intent id is committed. The sweep determines the result of the attempt in any
      // case. A succeeded payment needs no check, because that status is final.
      if (payment && payment.status !== 'succeeded') await enqueue(tx, 'billing.follow_payment', { organization_id, payment_id: payment.id })
    }
  }
}

const idsOf = (events: readonly ReceivedEvent[]) => events.map(({ object_id }) => object_id)

/** Fetches the events of the built-in test processor and handles them like those that arrive by HTTP. */
export const fetchProcessorEvents = async (deps: Deps): Promise<void> => {
  const known = new Map<string, AccountRow>()
  const calls = await deps.gateways.payments.calls(async (account_id) => {
    const account = await findAccountAnywhere(deps.db, account_id)
    if (account) known.set(account_id, account)
    return account && openAccount(deps.platform.sealer, account).secret
  })
  for (const [account_id, own] of Map.groupBy(calls, (call) => call.account_id)) {
    const account = known.get(account_id)!
    const processor = processorOf(deps, account)
    const events = own.flatMap(({ headers, body }) => processor.readEvent(headers, Buffer.from(body)) ?? [])
    await deps.transact((tx) => receiveAll(tx, account, events))
  }
}

/** Interval at which an account's event list is read. */
export const readUpEvery = 1 * hours
/** Time for which processors list their events, and for which this database keeps them. */
const remembered = 30 * days
/**
 * Overlap between two reads of the event list. The clocks may differ, and the processor's list may not contain the
 * latest events yet.
 */
const overlap = 10 * minutes

/**
 * Sweep task that reads the events of an account since the last complete read. This finds events that never arrived,
 * for example because the webhook endpoint was missing. It also repeats events that arrived while the stored API key
 * was invalid. Refunds and disputes that were created at the processor are therefore always found.
 */
export const readUp = async (deps: Deps, lease: Lease): Promise<void> => {
  const account = (await findAccount(deps.db, lease.organization_id, lease.id))!
  const processor = processorOf(deps, account)
  const now = deps.platform.clock.wall()
  const until = await heardUntil(deps.db, account)
  const oldest = later(now, -remembered)
  const since = until === null || until < oldest ? oldest : later(until, -overlap)
  let complete = true
  try {
    let after: string | null = null
    do {
      const page = await processor.listEvents!(since, after)
      await deps.transact(async (tx) => {
        await extendLease(tx, lease, sweeps['billing.read_up'].lease_ms)
        await receiveAll(tx, account, page.events, { again: true })
      })
      after = page.next
    } while (after !== null)
  } catch (error) {
    if (!(error instanceof ProcessorSilent || error instanceof ProcessorRefusal)) throw error
    deps.platform.log.error('account_silent', { organization_id: account.organization_id, account_id: account.id, error })
    complete = false
  }
  await underLease(deps.transact, lease, async (tx) => {
    if (complete) await noteHeard(tx, account, now)
    return later(tx.clock.wall(), readUpEvery)
  })
}

/** Deletes old processor events. An event is kept for as long as the processor may send or list it again. */
export const purge = ({ transact }: Deps): Promise<void> => transact((tx) => purgeEvents(tx, later(tx.clock.wall(), -remembered - overlap)))
