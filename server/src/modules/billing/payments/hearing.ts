import { ProcessorRefusal, ProcessorSilent, type ProcessorEvent } from '../../../gateways/payments/payments.ts'
import { days, hours, later, minutes } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { extendLease, underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { findAccount, findAccountAnywhere, findByIntent, openAccount, type AccountRow } from './attempts.sql.ts'
import { processorOf } from './attempts.ts'
import { heardUntil, noteHeard, purgeEvents, takeEvent } from './hearing.sql.ts'

/** Takes down what a processor tells, once, and has it looked into: the event is a hint, the processor's object is the truth. */
export const receive = async (
  tx: Tx,
  { organization_id, id: account_id }: AccountRow,
  event: Omit<ProcessorEvent, 'at'>,
  /** Whoever reads it up does not know what came of it when it was told. */ { again = false } = {},
): Promise<void> => {
  const { id: event_id, kind, object_id } = event
  if (!(await takeEvent(tx, { organization_id, account_id, event_id, kind, object_id })) && !again) return
  if (kind === 'refund.updated') return enqueue(tx, 'billing.follow_refund', { organization_id, account_id, processor_refund_id: object_id })
  if (kind === 'dispute.updated') return enqueue(tx, 'billing.follow_dispute', { organization_id, account_id, processor_dispute_id: object_id })
  if (kind === 'method.updated') return enqueue(tx, 'billing.follow_method', { organization_id, account_id, processor_method_id: object_id })
  const payment = await findByIntent(tx, organization_id, account_id, object_id)
  // The event may be faster than our own record of the name: then the attempt is looked after in any case.
  // And what is charged stays so: there is nothing to look into.
  if (payment && payment.status !== 'succeeded') await enqueue(tx, 'billing.follow_payment', { organization_id, payment_id: payment.id })
}

/** Hears what a processor on this machine has to say, through the same ear as those that call by HTTP. */
export const hearCalls = async (means: Means): Promise<void> => {
  const known = new Map<string, AccountRow>()
  const calls = await means.gateways.payments.calls(async (account_id) => {
    const account = await findAccountAnywhere(means.db, account_id)
    if (account) known.set(account_id, account)
    return account && openAccount(means.platform.sealer, account).secret
  })
  for (const { account_id, headers, body } of calls) {
    const account = known.get(account_id)!
    const event = processorOf(means, account).readEvent(headers, Buffer.from(body))
    if (event) await means.transact((tx) => receive(tx, account, event))
  }
}

/** How often an account is asked what it has told. */
export const readUpEvery = 1 * hours
/** Processors remember what they told for a month, and so do we. */
const remembered = 30 * days
/** Their clock and ours may differ, and what has just happened may not be in their list yet. */
const overlap = 10 * minutes

/**
 * Reads up what an account has told since everything was known: a call that never arrived, an endpoint that nobody made or
 * that was switched off, or one that was heard while the account's key did not count. What begins at the processor –
 * disputes, refunds made there – is found by this in any case.
 */
export const readUp = async (means: Means, lease: Lease): Promise<void> => {
  const account = (await findAccount(means.db, lease.organization_id, lease.id))!
  const processor = processorOf(means, account)
  const now = means.platform.clock.wall()
  const until = await heardUntil(means.db, account)
  const oldest = later(now, -remembered)
  const since = until === null || until < oldest ? oldest : later(until, -overlap)
  let complete = true
  try {
    let after: string | null = null
    do {
      const page = await processor.listEvents!(since, after)
      await means.transact(async (tx) => {
        await extendLease(tx, lease, sweeps['billing.read_up'].lease_ms)
        for (const event of page.events) await receive(tx, account, event, { again: true })
      })
      after = page.next
    } while (after !== null)
  } catch (error) {
    if (!(error instanceof ProcessorSilent || error instanceof ProcessorRefusal)) throw error
    means.platform.log.error('account_silent', { organization_id: account.organization_id, account_id: account.id, error })
    complete = false
  }
  await underLease(means.transact, lease, async (tx) => {
    if (complete) await noteHeard(tx, account, now)
    return later(tx.clock.wall(), readUpEvery)
  })
}

/** What a processor told is remembered for as long as it may be said or read again. */
export const purge = ({ transact }: Means): Promise<void> => transact((tx) => purgeEvents(tx, later(tx.clock.wall(), -remembered - overlap)))
