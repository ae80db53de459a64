import { randomUUID } from 'node:crypto'
import type { Operation } from '@bursar/contract'
import { record } from '../../harness/statements.ts'
import { bodyOf, draftOf, pathOf } from '../../security/fuzz/drafts.ts'
import type { Stage } from '../../security/fuzz/stage.ts'
import { sourceOf } from '../../security/fuzz/valid.ts'

export interface Measured {
  readonly status: number
  readonly body: string
  /** The statements of the request, without those that begin and end transactions. */
  readonly statements: readonly string[]
}

/** The number of times that the resources of a request are made, so that a list has several entries. */
const entries = 3

/** Sends the valid request of an operation and counts its statements. The second of two requests counts: caches are filled then. */
export const measure = async (stage: Stage, operation: Operation): Promise<Measured> => {
  const source = sourceOf(operation)
  if (!source) throw new Error(`there is no valid request for ${operation.id}`)
  let measured: Measured | undefined
  for (let turn = 0; turn < 2; turn++) {
    if (turn === 0 && operation.method === 'GET') for (let at = 1; at < entries; at++) await source.make(stage, stage.tenant)
    if (turn === 1 && operation.method !== 'GET') await stage.tenant.renew()
    const ask = await source.make(stage, stage.tenant)
    const [kind] = source.allowed
    const valid = ask(kind!)
    const draft = draftOf(operation, valid)
    const { bytes, type } = bodyOf(draft)
    const payload = valid.signed === undefined ? bytes : Buffer.from(valid.signed)
    const credential = valid.credential ?? (await stage.tenant.headers(kind!))
    const key = operation.method === 'GET' ? {} : { 'idempotency-key': randomUUID() }
    const { answer, statements } = await record(() =>
      stage.world.api.server.inject({
        method: operation.method,
        url: pathOf(operation, draft),
        headers: { ...type, ...credential, ...key, ...draft.headers } as Record<string, string>,
        ...(payload === undefined ? {} : { payload }),
      }),
    )
    measured = { status: answer.statusCode, body: answer.body, statements }
  }
  return measured!
}
