import { createOrder, finalizeOrder } from '@bursar/contract'
import { multiStep, write } from '../../handlers.ts'
import { presentOrder } from '../records/orders.ts'
import { createDraftOrder } from './drafts.ts'
import { begin, proceed } from './finalizing.ts'

export const operations = [
  write(createOrder, async (tx, { scope, body }) => presentOrder(await createDraftOrder(tx, scope, body))),
  multiStep(finalizeOrder, {
    begin: (tx, { scope, params, body }) => begin(tx, scope, params.id, body),
    proceed: (deps, _, intended) => proceed(deps, intended),
  }),
]
