import { getMemberReadiness } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { readReadiness } from './readiness.ts'

export const operations = [read(getMemberReadiness, (db, { reach, query, platform }) => readReadiness(db, reach, query.organization_id, platform.clock.wall()))]
