import { hash } from 'node:crypto'
import type { Operation } from '@bursar/contract'
import { openChance, type Chance } from '../../simulation/years/stories.ts'
import type { watchChanges } from './changes.ts'
import { isSuccess, allowedCpu, largestRefusal, undeclared } from './checks.ts'
import { bodyOf, draftOf, pathOf, type Draft } from './drafts.ts'
import { makeHostile } from './hostile.ts'
import { enrich, mutateDraft } from './mutations.ts'
import type { Kind, Report } from './report.ts'
import { credentialKinds, type CredentialKind, type Stage } from './stage.ts'
import type { Source } from './valid.ts'
import type { Answer, Attempt, openWire } from './wire.ts'

type Style = 'valid' | 'enriched' | 'mutated' | 'hostile'

export interface Tools {
  readonly stage: Stage
  readonly wire: ReturnType<typeof openWire>
  readonly changes: Awaited<ReturnType<typeof watchChanges>>
  readonly report: Report
  /** Slow requests. They are repeated at the end of the round. */
  readonly slow: (() => Promise<void>)[]
  readonly seed: number
  /** True if a single request is repeated. Otherwise the first request of each operation and round is the valid one. */
  readonly alone: boolean
}

/** Gives each request random numbers of its own, so that it can be repeated without the requests before it. */
const chanceOf = (seed: number, operation: Operation, number: number): Chance =>
  openChance(Buffer.from(hash('sha256', `${seed} ${operation.id} ${number}`, 'hex'), 'hex').readUInt32LE())

/** A valid wait of the event log would hold up the run for up to thirty seconds, and that of a stream for an hour. */
const shortenWait = (operation: Operation, draft: Draft): void => {
  const isStream = operation.media === 'text/event-stream'
  const longest = isStream ? 3600 : 30
  draft.query = draft.query.map(([name, value]) =>
    name === 'wait' && /^\d+$/.test(value) && Number(value) > 0 && Number(value) <= longest ? [name, '1'] : [name, value],
  )
  // Without a wait, a stream stays open.
  if (isStream && !draft.query.some(([name]) => name === 'wait')) draft.query.push(['wait', '0'])
}

/** Sends requests of one operation, from number `first` on, and checks each answer. */
export const playOperation = async (operation: Operation, source: Source, first: number, count: number, tools: Tools): Promise<void> => {
  const { stage, wire, changes, report, slow, seed, alone } = tools
  let ask: Awaited<ReturnType<Source['make']>> | undefined

  /** Makes the resources of a valid request. Earlier requests may have spoiled the tenant, so it is replaced once. */
  const prepare = async () => {
    try {
      return await source.make(stage, stage.tenant)
    } catch {
      await stage.replaceTenant()
      return source.make(stage, stage.tenant)
    }
  }

  const write = async (number: number, plain: boolean): Promise<{ attempt: Attempt; kind: CredentialKind; style: Style }> => {
    const chance = chanceOf(seed, operation, number)
    const style: Style = plain ? 'valid' : chance.pick(styles)
    const kind = style === 'valid' || chance.below(10) < 7 ? chance.pick(source.allowed) : chance.pick(credentialKinds)
    ask ??= await prepare()
    const valid = ask(kind)
    const draft = draftOf(operation, valid)
    const credential = source.allowed.includes(kind) ? valid.credential : undefined
    draft.headers = { ...(credential ?? (await stage.tenant.headers(kind))), ...draft.headers }
    if (style === 'hostile') return { attempt: makeHostile(operation, draft, chance), kind, style }
    const { ids } = stage.tenant
    const note = style === 'valid' ? 'none' : style === 'enriched' ? enrich(operation, draft, chance, ids) : mutateDraft(operation, draft, chance, ids)
    shortenWait(operation, draft)
    const { bytes, type } = bodyOf(draft)
    const body = style === 'valid' && valid.signed !== undefined ? Buffer.from(valid.signed) : bytes
    return { attempt: { method: operation.method, path: pathOf(operation, draft), headers: { ...type, ...draft.headers }, body, note }, kind, style }
  }

  /** Sends a request. Afterwards, new resources are needed if the request was accepted and may have used them up. */
  const send = async (attempt: Attempt): Promise<Answer> => {
    const answer = await wire.send(attempt)
    if (isSuccess(operation, answer) && attempt.method !== 'GET') ask = undefined
    return answer
  }

  /** Sends the valid request. If it is refused, repairs the credentials, and then the whole tenant. */
  const sendValid = async (number: number): Promise<void> => {
    for (const repair of [undefined, stage.tenant.renew, stage.replaceTenant]) {
      if (repair) {
        await repair()
        ask = undefined
      }
      const { attempt, kind } = await write(number, true)
      await changes.skip()
      const answer = await send(attempt)
      const accepted = isSuccess(operation, answer)
      if (accepted || repair === stage.replaceTenant) {
        await check(number, attempt, kind, answer)
        report.count(operation.id, answer, accepted)
        if (!accepted)
          report.found({ kind: 'no valid request', operation: operation.id, credential: kind, number, what: 'the valid request is refused', attempt, answer })
        return
      }
    }
  }

  const check = async (number: number, attempt: Attempt, credential: CredentialKind, answer: Answer): Promise<void> => {
    const found = (kind: Kind, what: string) => report.found({ kind, operation: operation.id, credential, number, what, attempt, answer })
    const why = answer.status >= 500 ? undefined : undeclared(attempt, answer)
    if (answer.status >= 500) found('≥500', `status ${answer.status}`)
    if (why !== undefined) found('undeclared', why)
    if (answer.status >= 400 && answer.bytes > largestRefusal) found('oversized', `a refusal of ${answer.bytes} bytes`)
    const changed = await changes.since(operation.id)
    if (answer.status >= 400 && changed.length > 0) found('changed', `a refused request changed ${changed.join(', ')}`)
    if (answer.cpu > allowedCpu(operation, attempt)) slow.push(() => repeatSlow(number, attempt.note === 'none', answer.cpu))
  }

  /**
   * Sends a slow request up to nine times more. It counts only if it is slow each time. A single measurement may include a
   * garbage collection, code that was not compiled yet, or the cache misses of a busy machine.
   */
  const repeatSlow = async (number: number, plain: boolean, first: number): Promise<void> => {
    const times = [first]
    for (let at = 0; at < 9; at++) {
      const { attempt, kind } = await write(number, plain)
      const answer = await send(attempt)
      if (answer.cpu <= allowedCpu(operation, attempt)) return
      times.push(answer.cpu)
      if (at < 8) continue
      const what = `${times.map((time) => Math.round(time)).join(', ')} ms of CPU`
      report.found({ kind: 'slow', operation: operation.id, credential: kind, number, what, attempt, answer })
    }
  }

  for (let number = first; number < first + count; number++) {
    if (number === first && (!alone || number === 1)) {
      await sendValid(number)
      continue
    }
    const { attempt, kind, style } = await write(number, false)
    await changes.skip()
    let answer: Answer
    try {
      answer = await send(attempt)
    } catch (error) {
      report.found({ kind: 'silent', operation: operation.id, credential: kind, number, what: (error as Error).message, attempt, answer: undefined })
      continue
    }
    report.count(operation.id, answer, style === 'valid' && isSuccess(operation, answer))
    await check(number, attempt, kind, answer)
    // An earlier request may have ended the credential.
    if (answer.status === 401 && style !== 'hostile' && source.allowed.includes(kind) && kind !== 'none') await stage.tenant.renew()
    if (style === 'valid' && !isSuccess(operation, answer)) ask = undefined
  }
}

const styles: readonly Style[] = [...repeat('valid', 2), ...repeat('enriched', 4), ...repeat('mutated', 10), ...repeat('hostile', 4)]
function repeat(style: Style, times: number): Style[] {
  return Array.from({ length: times }, () => style)
}
