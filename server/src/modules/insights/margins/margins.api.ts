import { listCustomerMargins } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { marginsOf } from './margins.ts'

export const operations = [read(listCustomerMargins, (db, { scope, query, platform }) => marginsOf(db, platform.clock, scope, query))]
