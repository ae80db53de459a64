import { getOrderTimeline } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { readTimeline } from './timeline.ts'

export const operations = [read(getOrderTimeline, (db, { actor, scope, params, query }) => readTimeline(db, scope, actor, params.id, query))]
