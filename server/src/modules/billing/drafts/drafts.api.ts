import { createOrder, finalizeOrder } from '@bursar/contract'
import { steps, write } from '../../handlers.ts'
import { presentOrder } from '../orders/orders.ts'
import { create } from './drafts.ts'
import { begin, proceed } from './finalizing.ts'

export const operations = [
  write(createOrder, async (tx, { reach, body }) => presentOrder(await create(tx, reach, body))),
  steps(finalizeOrder, {
    begin: (tx, { reach, params, body }) => begin(tx, reach, params.id, body),
    proceed: (means, _, intended) => proceed(means, intended),
  }),
]
