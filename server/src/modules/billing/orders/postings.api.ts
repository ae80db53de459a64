import { InvalidRequest, listOrderLedgerEntries } from '@bursar/contract'
import { isId } from '../../../kernel/ids.ts'
import { read } from '../../handlers.ts'
import { requireOrderRow } from '../records/orders.ts'
import { balancesOf, postingsOf } from '../ledger/ledger.sql.ts'

export const operations = [
  read(listOrderLedgerEntries, async (db, { scope, params, query }) => {
    const { cursor = null, limit } = query
    if (cursor !== null && !isId(cursor))
      throw new InvalidRequest({ loc: ['query', 'cursor'], msg: 'Send the next_cursor of an earlier answer.', type: 'value_error', input: cursor })
    const order = await requireOrderRow(db, scope, params.id)
    const size = Math.min(limit, 100)
    const postings = await postingsOf(db, order, cursor, size + 1)
    return {
      items: postings.slice(0, size),
      balances: await balancesOf(db, order),
      next_cursor: postings.length > size ? postings[size - 1]!.id : null,
    }
  }),
]
