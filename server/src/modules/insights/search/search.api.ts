import { searchOrganization } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { search } from './search.ts'

export const operations = [read(searchOrganization, (db, { actor, scope, query, platform }) => search(db, platform.hasher, scope, actor, query))]
