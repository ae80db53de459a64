import { listEventNames, listEventTypes, paginate, updateEventType } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { subjectFilters } from '../events/events.ts'
import { listTypes } from './event-types.sql.ts'
import * as types from './event-types.ts'

export const operations = [
  read(listEventNames, async (db, { scope, query }) => {
    const readable = confine(scope, 'analytics:read')
    const subjects = await subjectFilters(db, readable, query)
    const { items, total, next_cursor } = await listTypes(db, readable, query, { ...query, subjects, labels: false })
    return paginate(query, items, total, next_cursor)
  }),
  read(listEventTypes, async (db, { scope, query }) => {
    const readable = confine(scope, 'analytics:read')
    const subjects = await subjectFilters(db, readable, query)
    const source = query.source === undefined ? [] : [query.source]
    const { items, total, next_cursor } = await listTypes(db, readable, query, { ...query, source, subjects, labels: true })
    return paginate(query, items, total, next_cursor)
  }),
  write(updateEventType, (tx, { scope, params, body }) => types.updateEventType(tx, scope, params.id, body)),
]
