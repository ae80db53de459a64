import { explainAccess } from '@bursar/contract'
import { read } from '../../handlers.ts'
import { explain } from './explanation.ts'

export const operations = [read(explainAccess, (db, { scope, query }) => explain(db, scope, query))]
