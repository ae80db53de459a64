import { advanceTestClock, createTestClock, getTestClock, listTestClocks, paginate } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listClocks } from '../records/test-clocks.sql.ts'
import * as testClocks from './test-clocks.ts'

export const operations = [
  read(listTestClocks, async (db, { scope, query, platform }) => {
    testClocks.refuseOutside(platform.config)
    const { items, total, next_cursor } = await listClocks(db, confine(scope, 'customers:read'), query)
    return paginate(query, items.map(testClocks.presentTestClock), total, next_cursor)
  }),
  write(createTestClock, async (tx, { scope, body, platform }) => {
    testClocks.refuseOutside(platform.config)
    return testClocks.presentTestClock(await testClocks.createTestClock(tx, scope, body))
  }),
  read(getTestClock, async (db, { scope, params, platform }) => {
    testClocks.refuseOutside(platform.config)
    return testClocks.presentTestClock(await testClocks.requireTestClock(db, scope, params.id))
  }),
  write(advanceTestClock, async (tx, { scope, params, body, platform }) => {
    testClocks.refuseOutside(platform.config)
    return testClocks.presentTestClock(await testClocks.advance(tx, scope, params.id, body))
  }),
]
