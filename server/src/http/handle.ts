import { accountLimits, successStatus, TooManyRequests, type Operation } from '@bursar/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { OutgoingHttpHeaders } from 'node:http'
import { isForeseeable, lookAhead, organizationIds, scopeOf, type Actor, type Finding } from '../kernel/actors.ts'
import { credentialsIn } from '../modules/identity/index.ts'
import { Finished, isRefusal, pending, type Call, type Implementation, type Readiness, type Refusal, type SellerLook } from '../modules/handlers.ts'
import { encode } from '../platform/encode.ts'
import type { AuditContext } from '../platform/audit/audit.ts'
import type { LiveSink } from '../platform/outbox/live.ts'
import { runDry } from '../platform/postgres/dry-run.ts'
import type { Tx } from '../platform/postgres/postgres.ts'
import { authenticate, authorize, recognise, secretOf } from './authenticate.ts'
import type { Charges } from './charges.ts'
import type { HttpContext } from './context.ts'
import { beginOnce, findAgain, finishOnce, once, readKey, type Answer, type Repeatable } from './idempotency.ts'
import { ignoredNames } from './ignored.ts'
import { parse } from './parse.ts'
import { parseInSlices } from './slices.ts'
import { looksAhead, namedBy, narrowedTo, payerOf, presentedBy, queryOf } from './requests.ts'

/** The caller as the transaction of the change has found it, and the idempotency key if it was taken with the caller. */
interface Admitted extends Pick<Repeatable, 'taken'> {
  readonly who: Actor
}

/** Parses the request, runs its handler as the handler kind requires, and sends the response. */
export const handle = async (
  { platform, postgres, audit, gateways, readiness, waiters, live, auth, recorded, pages }: HttpContext,
  implementation: Exclude<Implementation, { kind: 'protocol' }>,
  request: FastifyRequest,
  reply: FastifyReply,
  charges: Charges,
) => {
  const { operation } = implementation
  const narrowed = narrowedTo(request)
  const ahead = looksAhead(request) && isForeseeable(scopeOf(request.progress.actor, narrowed))
  const actor = ahead ? lookAhead(request.progress.actor) : request.progress.actor
  if (ahead) reply.header('bursar-member-phase', '2')
  const ignored = ignoredNames(operation, { query: request.query, body: request.body })
  if (ignored !== undefined) reply.header('bursar-ignored', ignored)
  const input = { params: request.params, query: request.query, body: request.body }
  const parsed = operation.slices === undefined ? parse(operation, input) : await parseInSlices(operation, operation.slices, input, request.sliced?.ends ?? [])
  const { access } = operation
  const key = operation.method === 'GET' ? undefined : readKey(request.headers['idempotency-key'])
  /** Checks the caller again in the transaction. With a key, takes the idempotency key in the same statement. */
  const admit = async (tx: Tx, key?: string): Promise<Admitted> => {
    if (access.kind === 'open' || access.kind === 'protocol') return { who: actor }
    if (access.kind === 'visitor') return { who: await recognise({ ...auth, find: credentialsIn(tx) }, presentedBy(request)) }
    const { find, taken } = findAgain(tx, actor, key)
    const who = await authenticate({ ...auth, find }, access.kind, presentedBy(request))
    authorize(access, who, platform.clock.wall())
    return { who, taken: taken() }
  }
  const watched = watch(readiness, actor, narrowed)
  const callOf = (who: Actor) =>
    ({
      actor: who,
      scope: { ...scopeOf(who, narrowed), ...watched?.scope },
      ...parsed,
      address: request.ip,
      raw: { headers: request.headers, body: request.rawBody ?? Buffer.alloc(0), query: queryOf(request), numbers: request.sliced?.numbers ?? new Map() },
      showsSeller: (seller: SellerLook) => pages.sellers.note(request, seller),
      reply: {} as Call['reply'],
      isGone: () => reply.raw.destroyed,
      platform,
      eventStore: gateways.eventStore,
      joinWaiters: (organization_id: string) => waiters.join(organization_id, (leave) => void reply.raw.once('close', leave)),
      charge: charges.charge,
      chargeOn: charges.chargeOn,
    }) as unknown as Call<never>
  /** Encodes the response before the transaction commits, so that a change without a valid response is rolled back. */
  const answerOf = (call: Call<never>, answer: unknown): Answer =>
    answer === pending && operation.pending
      ? { status: operation.pending, headers: { ...call.reply, 'retry-after': '1' }, text: undefined }
      : {
          status: successStatus(operation),
          headers: call.reply,
          text: operation.media ? String(answer) : operation.returns ? encode(operation.returns, answer) : undefined,
        }
  const attempt = async (who: Actor, work: (call: Call<never>) => Promise<unknown>): Promise<Answer | Refusal> => {
    const call = callOf(who)
    const answer = await work(call)
    return isRefusal(answer) ? answer : answerOf(call, answer)
  }
  /**
   * Builds the input of the idempotency check. Undefined if the request has no idempotency key or the operation needs
   * no authentication.
   */
  const repeatable = ({ who, taken }: Admitted): Repeatable | undefined =>
    key === undefined || access.kind === 'open' || access.kind === 'visitor' || access.kind === 'protocol'
      ? undefined
      : {
          operation,
          actor: who,
          key,
          taken,
          asked: [operation.id, request.raw.url ?? '', narrowed ?? '', request.rawBody ?? ''],
          credential: secretOf(auth, access.kind, presentedBy(request))!,
        }
  const auditEntry = (who: Actor): AuditContext => ({ operation: operation.id, request_id: request.id, actor: who, resource_id: namedBy(parsed.params) })

  /** Charges the caller for questions to the VAT service, which the transaction may cause. */
  const withCharges = (tx: Tx): Tx => ({
    ...tx,
    chargeVatCheck: () => charges.charge(actor.kind === 'anonymous' ? 'vat_checks' : 'vat_checks_of_sellers', payerOf(actor, operation, request)),
  })
  const depsOf = (who: Actor) => ({ db: postgres.db, transact: recorded(auditEntry(who)), gateways, platform })
  const inManyTransactions = async ({ look, begin, proceed }: Extract<Implementation, { kind: 'multi_step' }>): Promise<Answer | Refusal> => {
    const seen = await look?.(depsOf(actor), callOf(actor))
    const begun = await postgres.transact(async (tx) => {
      const admitted = operation.body ? await admit(tx, key) : { who: actor }
      const { who } = admitted
      const work = async () => {
        const call = callOf(who)
        const result = await begin(withCharges(tx), call, seen as never)
        const opened = result instanceof Finished ? { answer: answerOf(call, result.answer) } : isRefusal(result) ? result : { intent: result as object }
        await audit.record(tx, auditEntry(who))
        return opened
      }
      const same = repeatable(admitted)
      const opened = same ? await beginOnce(tx, same, work) : await work().then((begun) => ('intent' in begun ? { ...begun, busy_until: null } : begun))
      return { who, opened }
    })
    if (isRefusal(begun.opened)) return begun.opened
    if ('answer' in begun.opened) return begun.opened.answer
    const { intent, busy_until } = begun.opened
    const same = repeatable(begun)
    let answer: Answer | Refusal | undefined
    try {
      answer = await attempt(begun.who, (call) => proceed(depsOf(begun.who), call, intent as never))
      return answer
    } finally {
      if (same) await postgres.transact((tx) => finishOnce(tx, same, answer === undefined || isRefusal(answer) ? undefined : answer, busy_until))
    }
  }

  const inOneTransaction = async (implementation: Extract<Implementation, { kind: 'write' }>): Promise<Answer | Refusal> => {
    await implementation.before?.(callOf(actor))
    return postgres.transact(async (tx) => {
      // A slow body may arrive long after the first authorization check. Authorization is therefore checked again in
      // the transaction of the change.
      const still = operation.body ? await admit(tx, key) : { who: actor }
      const effect = async () => {
        const answer = await attempt(still.who, (call) => implementation.handle(withCharges(tx), call))
        await audit.record(tx, auditEntry(still.who))
        return answer
      }
      const same = repeatable(still)
      return same ? once(tx, same, effect) : effect()
    })
  }

  if (implementation.kind === 'stream') {
    const call = callOf(actor)
    const gone = new AbortController()
    reply.raw.once('close', () => gone.abort())
    const body = await implementation.handle((what) => postgres.exporting.run(what, gone.signal), call)
    // If the export fails, resets the connection instead of closing it. Some clients would take a closed connection for a complete file.
    body.once('error', () => reply.raw.socket?.resetAndDestroy())
    return reply.headers(call.reply).type(`${operation.media!}; charset=utf-8`).send(body)
  }
  if (implementation.kind === 'live') {
    const begin = await implementation.handle(live, callOf(actor))
    if (begin === undefined)
      throw new TooManyRequests(
        `At most ${accountLimits.live_streams_per_session} streams of a session and ${accountLimits.live_streams_per_organization} of an organization may be open at the same time. Close one of them.`,
        { 'retry-after': '5' },
      )
    await charges.release()
    return streamMessages(reply, operation, begin)
  }
  const done =
    implementation.kind === 'read'
      ? await attempt(actor, (call) => implementation.handle(postgres.db, call))
      : implementation.kind === 'multi_step'
        ? await inManyTransactions(implementation)
        : implementation.kind === 'dry_run'
          ? await runDry(postgres.transact, async (tx) => {
              const { who } = await admit(tx)
              return attempt(who, (call) => implementation.handle(tx, call, depsOf(who)))
            })
          : implementation.around
            ? await implementation.around(callOf(actor), () => inOneTransaction(implementation))
            : await inOneTransaction(implementation)
  if (isRefusal(done)) throw done.refusal
  watched?.tell(operation)
  await charges.release()
  reply.code(done.status).headers(done.headers)
  return done.text === undefined ? reply.send() : reply.type(operation.media ? `${operation.media}; charset=utf-8` : 'application/json').send(done.text)
}

/** Answers with a stream of messages. The connection stays open until the client or the server closes it. */
const streamMessages = (reply: FastifyReply, operation: Operation, begin: (sink: LiveSink) => () => void): FastifyReply => {
  const { raw } = reply
  reply.hijack()
  // Without `no-transform`, a proxy may collect messages to compress them together.
  const headers = {
    ...reply.getHeaders(),
    'content-type': `${operation.media!}; charset=utf-8`,
    'cache-control': 'no-store, no-transform',
    'x-accel-buffering': 'no',
  }
  raw.writeHead(successStatus(operation), headers as OutgoingHttpHeaders)
  const leave = begin({
    write: (text) => void raw.write(text),
    buffered: () => raw.writableLength,
    end: () => void raw.end(),
    destroy: () => void raw.destroy(),
  })
  if (raw.destroyed) leave()
  else raw.once('close', leave)
  return reply
}

/**
 * Records which API calls a caller makes in organizations that are in phase 1 of the member migration. The calls are
 * counted after the response, because a transaction may be retried.
 */
const watch = (readiness: Readiness, actor: Actor, narrowed: string | undefined) => {
  const scope = scopeOf(actor, narrowed)
  if ((actor.kind !== 'organization' && actor.kind !== 'user') || !isForeseeable(scope)) return undefined
  const noticed = new Map<string, Set<Finding | 'seen'>>()
  const add = (organization_id: string, finding: Finding | 'seen') => {
    if (scope.phases.get(organization_id) === 'phase1') noticed.set(organization_id, (noticed.get(organization_id) ?? new Set()).add(finding))
  }
  const [only, another] = organizationIds(scope)
  // Counts the request only if the scope has a single organization. Otherwise it is unknown which organization the request concerns.
  if (another === undefined) add(only!, 'seen')
  return {
    scope: { notice: add },
    tell: ({ id }: Operation) => {
      for (const [organization_id, findings] of noticed) for (const finding of findings) readiness.note(organization_id, actor, finding, id)
    },
  }
}
