import { advanceTestClock, createTestClock, getTestClock, listTestClocks, paginate } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listClocks } from './test-clocks.sql.ts'
import { advance, create, find, present, refuseOutside } from './test-clocks.ts'

export const operations = [
  read(listTestClocks, async (db, { reach, query, platform }) => {
    refuseOutside(platform.config)
    const { items, total, next_cursor } = await listClocks(db, confine(reach, 'customers:read'), query)
    return paginate(query, items.map(present), total, next_cursor)
  }),
  write(createTestClock, async (tx, { reach, body, platform }) => {
    refuseOutside(platform.config)
    return present(await create(tx, reach, body))
  }),
  read(getTestClock, async (db, { reach, params, platform }) => {
    refuseOutside(platform.config)
    return present(await find(db, reach, params.id))
  }),
  write(advanceTestClock, async (tx, { reach, params, body, platform }) => {
    refuseOutside(platform.config)
    return present(await advance(tx, reach, params.id, body))
  }),
]
