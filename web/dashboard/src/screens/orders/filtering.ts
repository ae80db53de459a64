import type { listOrders } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { many, one, type Search } from '../../app/search.ts'

/** The first or last moment of a day of the reader's time zone. */
const momentOf = (date: string | undefined, time: string) => (date === undefined ? undefined : new Date(`${date}T${time}`).toISOString())

/** The filters of the address that the list and the export have in common. */
export const filtersOf = (search: Search) => ({
  status: many(search.status) as Received<typeof listOrders>['items'][number]['status'][],
  created_after: momentOf(one(search.from), '00:00:00'),
  created_before: momentOf(one(search.to), '23:59:59.999'),
})
