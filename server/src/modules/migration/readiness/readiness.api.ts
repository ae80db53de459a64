import { getMemberReadiness } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { readReadiness } from './readiness.ts'

export const operations = [read(getMemberReadiness, (db, { scope, query, platform }) => readReadiness(db, scope, query.organization_id, platform.clock.wall()))]
