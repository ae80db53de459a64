import { hash } from 'node:crypto'
import { chargeable } from '../../../kernel/money.ts'
import { type Environment, type Secret } from '../../../kernel/secrets.ts'
import { hours, later, seconds, type Clock } from '../../../platform/clock.ts'
import { openBatches } from '../../../platform/jobs/batches.ts'
import type { Log } from '../../../platform/log.ts'
import { isUnavailable } from '../../../platform/postgres/outage.ts'
import { openPostgres, type Tx } from '../../../platform/postgres/postgres.ts'
import { ProcessorRefusal, ProcessorSilent, type Instrument, type Intent, type IntentStatus, type Processor, type ProcessorEvent } from '../payments.ts'
import { fingerprintOf, judge, readCard, settlesAfter, type Verdict } from './cards.ts'
import {
  findSettling,
  freeKey,
  insertIntent,
  lockToConfirm,
  runWrites,
  storeAnswer,
  takeKey,
  updateIntent,
  type SavedCard,
  type StoredIntent,
  type Write,
} from './effects.sql.ts'
import {
  findByClientSecret,
  findDispute,
  findIntent,
  findRefund,
  forgetKeys,
  forgetMethod,
  insertRefund,
  listDisputes,
  listIntents,
  listRefunds,
  listWaitingAccounts,
  lockDispute,
  lockIntent,
  readBooks,
  refundedOf,
  takeCallbacks,
  type ChargeRow,
  type DisputeRow,
  type RefundRow,
} from './records.sql.ts'
import { readSigned, sign } from './signatures.ts'
import { presentIntent, presentRefund, presentDispute, reviveDispute, revive, known, newName, canonical } from './presenting.ts'
import { conclude, settleIntent, concludeRefund, withheld, turn, concludeDispute, tell, type ChosenCard } from './concluding.ts'

/** An event to be posted to the account's endpoint, with its exact headers and body. */
export interface Callback {
  readonly id: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface TestAccount extends Processor {
  readEvent(...posted: Parameters<Processor['readEvent']>): ProcessorEvent
  /**
   * Returns up to `limit` due events, signed now, oldest first, each once. A returned event is not returned again, even
   * if the caller fails to deliver it.
   */
  takeCallbacks(limit: number): Promise<Callback[]>
}

export interface TestProcessor {
  /** Opens one account that signs its events with this secret. */
  account(id: string, secret: Secret): TestAccount
  /** Answers the 3-D Secure challenge of the payer's bank. The intent's client secret suffices. */
  completeAction(client_secret: string, succeed: boolean): Promise<Intent>
  /** Returns the accounts with due events. */
  waitingAccounts(): Promise<string[]>
  /** Returns every charge, refund and dispute of every account from the processor's own records. */
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
  readonly timeout_ms?: number
  /** Prepares statements that come again. */
  readonly prepared?: boolean
  /** For tests: returns whether a call gets no response, and whether that happens before or after its effect. */
  readonly misbehave?: (call: ProcessorCall) => 'before' | 'after' | undefined
}

/**
 * Result of a request with an idempotency key. A lost request has no answer and leaves the key unused. The answer of a
 * request whose response is lost is stored under the key. `writes` are run with the statement that stores the answer.
 */
type Effect<T> = { readonly writes?: readonly Write[] } & (
  | { readonly answer: T; readonly lost?: 'answer' | undefined }
  | { readonly answer?: undefined; readonly lost: 'request' }
)

const keysLast = 24 * hours

const confirmable: readonly IntentStatus[] = ['requires_confirmation', 'requires_action', 'failed']

/**
 * Opens the sandbox's processor. It simulates an external system with its own connections, records and transactions,
 * and moves no money. Every charge is recorded, at most one per intent, even if the response is lost.
 */
export const openTestProcessor = ({
  url,
  environment,
  clock,
  log,
  connections = 4,
  timeout_ms = 5 * seconds,
  prepared = false,
  misbehave,
}: TestProcessorOptions): TestProcessor => {
  // In production, buyers could get products for free with test cards.
  if (environment === 'production') throw new Error('the test processor moves no money, and exists in the sandbox only')
  const { db, transact, close } = openPostgres(url, 'bursar_processor', { max: connections, timeout_ms, prepared, clock, log })

  const settleDue = async () => {
    const { intents, refunds, disputes } = await findSettling(db, clock.wall())
    for (const { account, id } of intents) await transact((tx) => settleIntent(tx, account, id))
    for (const { account, id } of refunds) await transact((tx) => concludeRefund(tx, account, id))
    for (const { account, id } of disputes) await transact((tx) => concludeDispute(tx, account, id))
  }
  const settleTogether = openBatches<void, void>(Infinity, async (calls) => {
    await settleDue()
    return calls
  })
  /**
   * Settles all due intents, refunds and disputes, so that later reads see their final status. Calls that wait at the
   * same time share one look, which begins after each of them.
   */
  const settle = () => settleTogether(undefined)

  const call = async <T>(name: ProcessorCall, work: () => Promise<T>): Promise<T> => {
    const fault = misbehave?.(name)
    if (fault === 'before') throw new ProcessorSilent(name)
    try {
      await settle()
      const answer = await work()
      if (fault === 'after') throw new ProcessorSilent(name)
      return answer
    } catch (error) {
      // A connection lost during commit leaves the result unknown, like a network failure.
      throw isUnavailable(error) ? new ProcessorSilent(name, { cause: error }) : error
    }
  }

  const account = (account: string, secret: Secret): TestAccount => {
    /** Executes a request under its key once, also under concurrent calls. Refusals leave the key unused. */
    const once = <T extends object>(name: ProcessorCall, key: string, request: unknown, work: (tx: Tx) => Promise<Effect<T>>): Promise<T> =>
      call(name, async () => {
        const fingerprint = hash('sha256', canonical([name, request]))
        const now = clock.wall()
        const taken = { account, key, fingerprint, expires_at: later(now, keysLast) }
        const { answer, lost } = await transact(async (tx): Promise<Effect<T>> => {
          const kept = await takeKey(tx, taken, now)
          if (kept && kept.fingerprint !== fingerprint) throw new ProcessorRefusal('key_reused', 'This key was used for another request.')
          // Returns the original response, which is stored under the key.
          if (kept) return { answer: kept.answer as T }
          const effect = await work(tx)
          await runWrites(tx, [...(effect.writes ?? []), effect.lost === 'request' ? freeKey(taken) : storeAnswer(taken, effect.answer)])
          return effect
        })
        if (lost) throw new ProcessorSilent(name)
        return answer
      })

    return {
      createIntent: async ({ key, ...request }) =>
        revive(
          await once('createIntent', key, request, async () => {
            checkAmount(request)
            const id = newName('int')
            const row = {
              account,
              id,
              created_at: clock.wall(),
              status: 'requires_confirmation' as const,
              client_secret: `${id}_secret_${newName('cs')}`,
              ...request,
              method_id: null,
              decline_code: null,
              settles_at: null,
              lost: 0,
            }
            return { answer: presentIntent({ ...row, token: null, charged_at: null }), writes: [insertIntent(row)] }
          }),
        ),
      confirmIntent: async (id, { key, ...request }) =>
        revive(
          await once('confirmIntent', key, { id, ...request }, async (tx) => {
            const { intent, card: saved, ...others } = known(await lockToConfirm(tx, account, id, idOf(request.deps)), 'intent')
            if (!confirmable.includes(intent.status)) throw new ProcessorRefusal(`intent_${intent.status}`, `This intent is ${intent.status}.`)
            const method = chosen(intent, request.deps, saved)
            const card = readCard(method.token)!
            if (card.loses === 'request' && intent.lost === 0) return { lost: 'request', writes: [updateIntent({ ...intent, lost: 1 })] }
            const verdict = judge(card, { kind: intent.kind, ...request, authenticated: false, ...others })
            const { after, writes } = conclude(intent, method, verdict, clock.wall())
            return { answer: presentIntent(after), writes, lost: card.loses === 'answer' ? 'answer' : undefined }
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
            // Canceling keeps the decline reason of an earlier confirmation.
            const after = { ...intent, status: 'canceled' as const }
            await runWrites(tx, [updateIntent(after)])
            return presentIntent(after)
          }),
        ),
      createRefund: ({ key, ...request }) =>
        once('createRefund', key, request, async (tx) => {
          const intent = known(await lockIntent(tx, account, request.intent_id), 'intent')
          if (intent.charged_at === null) throw new ProcessorRefusal('intent_not_charged', 'This intent has no charge that could be refunded.')
          const left = intent.amount - (await refundedOf(tx, intent))
          if (!Number.isSafeInteger(request.amount) || request.amount < 1) throw new ProcessorRefusal('amount_invalid', 'Give a whole amount above zero.')
          if (request.amount > left) throw new ProcessorRefusal('amount_too_large', `Only ${left} of this charge can still be refunded.`)
          if ((await listDisputes(tx, account, intent.id)).some(({ status }) => withheld.includes(status)))
            throw new ProcessorRefusal('charge_disputed', 'This charge is disputed and cannot be refunded.')
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
          if (!found) throw new ProcessorRefusal('method_unknown', 'There is no such payment method.')
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
        const { after, writes } = conclude(intent, { id: intent.method_id!, token: intent.token!, is_new: false }, verdict, clock.wall())
        await runWrites(tx, writes)
        return presentIntent(after)
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

/** Returns the id of a saved card. Null for a new card. */
const idOf = (deps: Instrument): string | null => (deps.kind === 'method' ? deps.id : null)

/** Returns the card to charge: a new one, or a saved one of this customer. */
const chosen = ({ customer }: StoredIntent, deps: Instrument, saved: SavedCard | null): ChosenCard => {
  if (deps.kind === 'token') {
    if (!readCard(deps.token)) throw new ProcessorRefusal('token_unknown', 'There is no such token.')
    return { id: newName('met'), token: deps.token, is_new: true }
  }
  if (saved?.customer !== customer || !saved.is_chargeable) throw new ProcessorRefusal('method_unknown', 'This customer has no such card.')
  return { id: deps.id, token: saved.token, is_new: false }
}

const checkAmount = ({ kind, amount, currency }: { kind: string; amount: number; currency: string }): void => {
  if (!/^[a-z]{3}$/.test(currency)) throw new ProcessorRefusal('currency_invalid', 'Give a currency as three lower-case letters.')
  const { minimum, maximum } = kind === 'setup' ? { minimum: 0, maximum: 0 } : chargeable(currency)
  if (!Number.isSafeInteger(amount)) throw new ProcessorRefusal('amount_invalid', 'Give a whole amount.')
  if (amount < minimum) throw new ProcessorRefusal('amount_too_small', `The smallest amount that can be charged is ${minimum}.`)
  if (amount > maximum) throw new ProcessorRefusal('amount_too_large', `The largest amount that can be charged is ${maximum}.`)
}
