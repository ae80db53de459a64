import { hash } from 'node:crypto'
import { chargeable } from '../../../kernel/money.ts'
import { randomText, type Environment, type Secret } from '../../../kernel/secrets.ts'
import { hours, later, seconds, type Clock } from '../../../platform/clock.ts'
import type { Log } from '../../../platform/log.ts'
import { isUnavailable, openPostgres, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import {
  ProcessorRefusal,
  ProcessorSilent,
  type Instrument,
  type Intent,
  type IntentStatus,
  type Processor,
  type ProcessorDispute,
  type ProcessorEvent,
  type ProcessorEventKind,
  type ProcessorRefund,
} from '../payments.ts'
import { declineOf, fingerprintOf, judge, lateBy, methodOf, readCard, respondWithin, settlesAfter, type Card, type DeclineCode, type Verdict } from './cards.ts'
import {
  countOthers,
  findByClientSecret,
  findDispute,
  findIntent,
  findKey,
  findMethod,
  findRefund,
  findSettling,
  forgetKeys,
  forgetMethod,
  insertCallbacks,
  insertCharge,
  insertDispute,
  insertIntent,
  insertMethod,
  insertRefund,
  keepKey,
  keepMethod,
  listDisputes,
  listIntents,
  listRefunds,
  listWaitingAccounts,
  lockDispute,
  lockIntent,
  readBooks,
  refundedOf,
  settleRefund,
  takeCallbacks,
  takeKey,
  updateDispute,
  updateIntent,
  type ChargeRow,
  type DisputeRow,
  type IntentRow,
  type MethodRow,
  type RefundRow,
} from './records.sql.ts'
import { readSigned, sign } from './signatures.ts'

/** An event that wants to be posted to the account's address, exactly as it stands. */
export interface Callback {
  readonly id: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface TestAccount extends Processor {
  readEvent(...posted: Parameters<Processor['readEvent']>): ProcessorEvent
  /** Hands out up to so many events that are due, signed now, oldest first, each once: what is then not delivered stays untold. */
  takeCallbacks(limit: number): Promise<Callback[]>
}

export interface TestProcessor {
  /** One account, which signs its events with this secret. */
  account(id: string, secret: Secret): TestAccount
  /** What the payer does when their bank asks them: confirm, or not. Knowing the intent's secret is enough. */
  completeAction(client_secret: string, succeed: boolean): Promise<Intent>
  /** The accounts that have events to be told by now. */
  waitingAccounts(): Promise<string[]>
  /** Every charge, refund and dispute of every account, as the processor knows them. */
  books(): Promise<{ readonly charges: readonly ChargeRow[]; readonly refunds: readonly RefundRow[]; readonly disputes: readonly DisputeRow[] }>
  close(): Promise<void>
}

export type ProcessorCall = Exclude<keyof Processor, 'readEvent'>

export interface TestProcessorOptions {
  readonly url: Secret
  readonly environment: Environment
  readonly clock: Clock
  readonly log: Log
  readonly connections?: number
  readonly patience_ms?: number
  /** Goes silent on purpose, before or after the effect of a call. */
  readonly misbehave?: (call: ProcessorCall) => 'before' | 'after' | undefined
}

/** What became of a request under a key. A lost request did nothing and leaves the key unused; a lost answer is kept under it. */
interface Effect<T> {
  readonly answer: T
  readonly lost?: 'request' | 'answer' | undefined
}

const keysLast = 24 * hours
const confirmable: readonly IntentStatus[] = ['requires_confirmation', 'requires_action', 'failed']

/**
 * Opens the processor of the sandbox: somebody else's system, with connections, books and transactions of its own, that
 * moves no money. It remembers every charge it made, each intent at most once, whatever became of the answer.
 */
export const openTestProcessor = ({
  url,
  environment,
  clock,
  log,
  connections = 4,
  patience_ms = 5 * seconds,
  misbehave,
}: TestProcessorOptions): TestProcessor => {
  // Whoever sold for test cards would give away for nothing.
  if (environment === 'production') throw new Error('the test processor charges nobody, and is for the sandbox only')
  const { db, transact, close } = openPostgres(url, 'bursar_processor', { max: connections, patience_ms, clock, log })

  /** What fell due in the meantime has happened before anybody looks. */
  const settle = async () => {
    const { intents, refunds, disputes } = await findSettling(db, clock.wall())
    for (const { account, id } of intents) await transact((tx) => settleIntent(tx, account, id))
    for (const { account, id } of refunds) await transact((tx) => concludeRefund(tx, account, id))
    for (const { account, id } of disputes) await transact((tx) => concludeDispute(tx, account, id))
  }

  const call = async <T>(name: ProcessorCall, work: () => Promise<T>): Promise<T> => {
    const fault = misbehave?.(name)
    if (fault === 'before') throw new ProcessorSilent(name)
    try {
      await settle()
      const answer = await work()
      if (fault === 'after') throw new ProcessorSilent(name)
      return answer
    } catch (error) {
      // A connection that breaks while committing leaves the caller in the dark, as a network would.
      throw isUnavailable(error) ? new ProcessorSilent(name, { cause: error }) : error
    }
  }

  const account = (account: string, secret: Secret): TestAccount => {
    /** Carries out a request under its key: once, however many ask at once. Refusals leave the key unused. */
    const once = <T extends object>(name: ProcessorCall, key: string, request: unknown, work: (tx: Tx) => Promise<Effect<T>>): Promise<T> =>
      call(name, async () => {
        const fingerprint = hash('sha256', canonical([name, request]))
        const { answer, lost } = await transact(async (tx): Promise<Effect<T>> => {
          const now = clock.wall()
          await takeKey(tx, account, key)
          const kept = await findKey(tx, account, key, now)
          if (kept && kept.fingerprint !== fingerprint) throw new ProcessorRefusal('key_reused', 'This key was used for another request.')
          // What was stored is what was answered.
          if (kept) return { answer: kept.answer as T }
          const effect = await work(tx)
          if (effect.lost !== 'request') await keepKey(tx, { account, key, fingerprint, answer: effect.answer, expires_at: later(now, keysLast) })
          return effect
        })
        if (lost) throw new ProcessorSilent(name)
        return answer
      })

    return {
      createIntent: async ({ key, ...request }) =>
        revive(
          await once('createIntent', key, request, async (tx) => {
            checkAmount(request)
            const id = newName('int')
            const row = {
              account,
              id,
              created_at: clock.wall(),
              status: 'requires_confirmation' as const,
              client_secret: `${id}_secret_${newName('cs')}`,
              ...request,
            }
            await insertIntent(tx, row)
            return { answer: await loadIntent(tx, account, id) }
          }),
        ),
      confirmIntent: async (id, { key, ...request }) =>
        revive(
          await once('confirmIntent', key, { id, ...request }, async (tx) => {
            const intent = known(await lockIntent(tx, account, id), 'intent')
            if (!confirmable.includes(intent.status)) throw new ProcessorRefusal(`intent_${intent.status}`, `This intent is ${intent.status}.`)
            const method = await chosen(tx, intent, request.means)
            const card = readCard(method.token)!
            if (card.loses === 'request' && intent.lost === 0) {
              await updateIntent(tx, intent, { lost: 1 })
              return { answer: presentIntent(intent), lost: 'request' }
            }
            if (request.means.kind === 'token') await insertMethod(tx, method)
            const verdict = judge(card, { kind: intent.kind, ...request, authenticated: false, ...(await countOthers(tx, intent, method.id)) })
            await conclude(tx, intent, method.id, card, verdict, clock.wall())
            return { answer: await loadIntent(tx, account, id), lost: card.loses === 'answer' ? 'answer' : undefined }
          }),
        ),
      readIntent: (id) => call('readIntent', async () => presentIntent(known(await findIntent(db, account, id), 'intent'))),
      findIntents: ({ customer, metadata }) => call('findIntents', async () => (await listIntents(db, account, customer, metadata)).map(presentIntent)),
      cancelIntent: (id) =>
        call('cancelIntent', () =>
          transact(async (tx) => {
            const intent = known(await lockIntent(tx, account, id), 'intent')
            if (intent.status === 'succeeded' || intent.status === 'processing')
              throw new ProcessorRefusal(`intent_${intent.status}`, `This intent is ${intent.status}.`)
            // Why it was declined before is not forgotten.
            await updateIntent(tx, intent, { status: 'canceled' })
            return loadIntent(tx, account, id)
          }),
        ),
      createRefund: ({ key, ...request }) =>
        once('createRefund', key, request, async (tx) => {
          const intent = known(await lockIntent(tx, account, request.intent_id), 'intent')
          if (intent.charged_at === null) throw new ProcessorRefusal('intent_not_charged', 'Nothing was charged that could be given back.')
          const left = intent.amount - (await refundedOf(tx, intent))
          if (!Number.isSafeInteger(request.amount) || request.amount < 1) throw new ProcessorRefusal('amount_invalid', 'Give a whole amount above nothing.')
          if (request.amount > left) throw new ProcessorRefusal('amount_too_large', `Only ${left} of this charge is left.`)
          if ((await listDisputes(tx, account, intent.id)).some(({ status }) => withheld.includes(status)))
            throw new ProcessorRefusal('charge_disputed', 'This charge is disputed: its money is not here.')
          const card = readCard(intent.token!)!
          const now = clock.wall()
          const waits = card.refunds
            ? { settles_at: later(now, settlesAfter), settles_to: card.refunds === 'pending' ? ('succeeded' as const) : ('failed' as const) }
            : null
          const refund: RefundRow = {
            account,
            id: newName('ref'),
            created_at: now,
            status: card.refunds === 'pending' ? 'pending' : 'succeeded',
            currency: intent.currency,
            settles_at: null,
            settles_to: null,
            ...request,
            ...waits,
          }
          await insertRefund(tx, refund)
          await tell(tx, account, card, 'refund.updated', refund.id, now)
          return { answer: presentRefund(refund) }
        }),
      readRefund: (id) => call('readRefund', async () => presentRefund(known(await findRefund(db, account, id), 'refund'))),
      findRefunds: ({ intent_id, metadata }) => call('findRefunds', async () => (await listRefunds(db, account, intent_id, metadata)).map(presentRefund)),
      readDispute: (id) => call('readDispute', async () => presentDispute(known(await findDispute(db, account, id), 'dispute'), clock.wall())),
      acceptDispute: async (id, { key }) =>
        reviveDispute(
          await once('acceptDispute', key, { id }, async (tx) => {
            const dispute = known(await lockDispute(tx, account, id), 'dispute')
            if (dispute.status === 'lost') return { answer: presentDispute(dispute, clock.wall()) }
            if (dispute.status !== 'needs_response') throw new ProcessorRefusal(`dispute_${dispute.status}`, `This dispute is ${dispute.status}.`)
            return { answer: presentDispute(await turn(tx, dispute, 'lost'), clock.wall()) }
          }),
        ),
      findDisputes: ({ intent_id }) =>
        call('findDisputes', async () => (await listDisputes(db, account, intent_id)).map((one) => presentDispute(one, clock.wall()))),
      forgetMethod: (id) =>
        call('forgetMethod', async () => {
          const found = await transact((tx) => forgetMethod(tx, account, id, clock.wall()))
          if (!found) throw new ProcessorRefusal('method_unknown', 'There is no such method.')
        }),
      previewToken: (token) =>
        call('previewToken', async () => {
          const card = readCard(token)
          return card ? { type: card.type, fingerprint: fingerprintOf(account, token), name: card.name } : null
        }),
      readEvent: (headers, body) => readSigned(secret, headers, body, clock.wall()),
      takeCallbacks: async (limit) => {
        await settle()
        const now = clock.wall()
        const rows = await transact(async (tx) => {
          await forgetKeys(tx, account, now)
          return takeCallbacks(tx, account, limit, now)
        })
        return rows.map(({ event_id: id, kind, object_id, happened_at }) => {
          const body = JSON.stringify({ id, kind, object_id, at: happened_at.toISOString() })
          return { id, headers: { 'content-type': 'application/json', ...sign(secret, body, now) }, body }
        })
      },
    }
  }

  return {
    account,
    completeAction: async (client_secret, succeed) => {
      await settle()
      return transact(async (tx) => {
        const { account, id } = known(await findByClientSecret(tx, client_secret), 'intent')
        const intent = known(await lockIntent(tx, account, id), 'intent')
        if (intent.status !== 'requires_action') throw new ProcessorRefusal(`intent_${intent.status}`, `This intent is ${intent.status}.`)
        const card = readCard(intent.token!)!
        const verdict: Verdict = succeed
          ? judge(card, { kind: intent.kind, off_session: false, require_3ds: false, authenticated: true, paid: 0, declined: 0 })
          : { status: 'failed', decline: 'authentication_failed' }
        await conclude(tx, intent, intent.method_id!, card, verdict, clock.wall())
        return loadIntent(tx, account, id)
      })
    },
    waitingAccounts: async () => {
      await settle()
      return listWaitingAccounts(db, clock.wall())
    },
    books: async () => {
      await settle()
      return readBooks(db)
    },
    close,
  }
}

/** Writes down what came of a confirmation – state, charge, card and events – in one transaction. */
const conclude = async (tx: Tx, intent: Locked<IntentRow>, method_id: string, card: Card, verdict: Verdict, at: Date): Promise<void> => {
  await updateIntent(tx, intent, {
    status: verdict.status,
    method_id,
    decline_code: verdict.status === 'failed' ? verdict.decline : null,
    settles_at: verdict.status === 'processing' ? later(at, settlesAfter) : null,
  })
  if (verdict.status === 'succeeded') {
    if (intent.kind === 'payment') {
      await insertCharge(tx, intent, at)
      if (card.disputes) await openDispute(tx, intent, card, card.disputes, at)
    }
    if (intent.reusable || intent.kind === 'setup') await keepMethod(tx, intent.account, method_id, at)
  }
  if (verdict.status !== 'processing') await tell(tx, intent.account, card, `intent.${verdict.status}`, intent.id, at)
}

const settleIntent = async (tx: Tx, account: string, id: string): Promise<void> => {
  const intent = await lockIntent(tx, account, id)
  // Whoever was faster has seen to it.
  if (!intent?.settles_at || intent.settles_at > tx.clock.wall()) return
  const card = readCard(intent.token!)!
  const verdict: Verdict = card.settles === 'failed' ? { status: 'failed', decline: 'insufficient_funds' } : { status: 'succeeded' }
  await conclude(tx, intent, intent.method_id!, card, verdict, intent.settles_at)
}

const concludeRefund = async (tx: Tx, account: string, id: string): Promise<void> => {
  const now = tx.clock.wall()
  const settled = await settleRefund(tx, account, id, now)
  if (!settled) return
  const intent = await findIntent(tx, account, settled.intent_id)
  await tell(tx, account, readCard(intent!.token!)!, 'refund.updated', id, now)
}

/** Those that keep the money of the charge. */
const withheld: readonly DisputeRow['status'][] = ['needs_response', 'under_review', 'lost']

const openDispute = async (tx: Tx, { account, id, amount, currency }: IntentRow, card: Card, { opens, becomes }: NonNullable<Card['disputes']>, at: Date) => {
  const dispute: DisputeRow = {
    account,
    id: newName('dis'),
    created_at: at,
    intent_id: id,
    status: opens,
    amount,
    currency,
    reason: 'fraudulent',
    respond_by: opens === 'needs_response' ? later(at, respondWithin) : null,
    settles_at: becomes ? later(at, settlesAfter) : null,
    settles_to: becomes ?? null,
  }
  await insertDispute(tx, dispute)
  await tell(tx, account, card, 'dispute.updated', dispute.id, at)
}

/** A dispute becomes something else, by itself or because it was accepted. */
const turn = async (tx: Tx, dispute: Locked<DisputeRow>, status: DisputeRow['status']): Promise<DisputeRow> => {
  const at = tx.clock.wall()
  const intent = known(await findIntent(tx, dispute.account, dispute.intent_id), 'intent')
  const respond_by = status === 'needs_response' ? later(at, respondWithin) : null
  const after = await updateDispute(tx, dispute, { status, respond_by, settles_at: null, settles_to: null })
  await tell(tx, dispute.account, readCard(intent.token!)!, 'dispute.updated', dispute.id, at)
  return after
}

const concludeDispute = async (tx: Tx, account: string, id: string): Promise<void> => {
  const dispute = await lockDispute(tx, account, id)
  if (dispute?.settles_at && dispute.settles_at <= tx.clock.wall()) await turn(tx, dispute, dispute.settles_to!)
}

/** Lays an event ready to be told: as often and as late as the card has it. */
const tell = (tx: Tx, account: string, { calls_back }: Card, kind: ProcessorEventKind, object_id: string, at: Date): Promise<void> => {
  const due_at = calls_back === 'late' ? later(at, lateBy) : at
  const callback = { account, event_id: newName('evt'), kind, object_id, happened_at: at, due_at, taken_at: null }
  return insertCallbacks(tx, calls_back === 'never' ? [] : calls_back === 'twice' ? [callback, callback] : [callback])
}

/** The card that pays: a new one, or one that this customer had kept. */
const chosen = async (tx: Tx, { account, customer }: IntentRow, means: Instrument): Promise<MethodRow> => {
  if (means.kind === 'token') {
    if (!readCard(means.token)) throw new ProcessorRefusal('token_unknown', 'There is no such token.')
    return { account, id: newName('met'), created_at: tx.clock.wall(), customer, token: means.token, kept_at: null, forgotten_at: null }
  }
  const method = await findMethod(tx, account, means.id)
  if (!method || method.customer !== customer || !method.kept_at || method.forgotten_at)
    throw new ProcessorRefusal('method_unknown', 'This customer keeps no such card.')
  return method
}

const checkAmount = ({ kind, amount, currency }: { kind: string; amount: number; currency: string }): void => {
  if (!/^[a-z]{3}$/.test(currency)) throw new ProcessorRefusal('currency_invalid', 'Give a currency as three small letters.')
  const { minimum, maximum } = kind === 'setup' ? { minimum: 0, maximum: 0 } : chargeable(currency)
  if (!Number.isSafeInteger(amount)) throw new ProcessorRefusal('amount_invalid', 'Give a whole amount.')
  if (amount < minimum) throw new ProcessorRefusal('amount_too_small', `The least that can be charged is ${minimum}.`)
  if (amount > maximum) throw new ProcessorRefusal('amount_too_large', `The most that can be charged is ${maximum}.`)
}

const loadIntent = async (tx: Tx, account: string, id: string): Promise<Intent> => presentIntent(known(await findIntent(tx, account, id), 'intent'))

const presentIntent = ({ account, id, kind, status, amount, currency, client_secret, metadata, charged_at, ...row }: IntentRow): Intent => ({
  id,
  kind,
  status,
  amount,
  currency,
  client_secret,
  metadata,
  method: row.token === null || row.method_id === null ? null : methodOf(account, row.method_id, row.token, readCard(row.token)!),
  decline: row.decline_code === null ? null : declineOf(row.decline_code as DeclineCode),
  charged_at,
})

const presentRefund = ({ id, intent_id, status, amount, currency, metadata }: RefundRow): ProcessorRefund => ({
  id,
  intent_id,
  status,
  amount,
  currency,
  metadata,
})

const presentDispute = ({ id, intent_id, status, amount, currency, reason, respond_by }: DisputeRow, now: Date): ProcessorDispute => ({
  id,
  intent_id,
  status,
  amount,
  currency,
  reason,
  respond_by,
  past_due: respond_by !== null && respond_by <= now,
  given_back: status === 'prevented',
  asleep: false,
})

const reviveDispute = (dispute: ProcessorDispute): ProcessorDispute => ({ ...dispute, respond_by: dispute.respond_by && new Date(dispute.respond_by) })

/** An answer that was stored comes back with its time as text. */
const revive = (intent: Intent): Intent => ({ ...intent, charged_at: intent.charged_at && new Date(intent.charged_at) })

const known = <T>(value: T | undefined, what: string): T => {
  if (value === undefined) throw new ProcessorRefusal(`${what}_unknown`, `There is no such ${what}.`)
  return value
}

const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const newName = (kind: string): string => `test_${kind}_${randomText(24, letters)}`

/** The same text for the same request, in whatever order its fields come. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) =>
    part !== null && typeof part === 'object' && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
