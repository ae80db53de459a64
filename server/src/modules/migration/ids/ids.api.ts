import { exportMemberIdMap, getMemberIdMap } from '@bursar/contract'
import { download } from '../../exports.ts'
import { read, stream } from '../../handlers.ts'
import { chooseMap, readMap } from './ids.ts'
import { pairsExport } from './ids.sql.ts'

export const operations = [
  read(getMemberIdMap, (db, { scope, query }) => readMap(db, scope, query)),
  stream(exportMemberIdMap, (run, { scope, query, reply }) => download(run, reply, pairsExport(chooseMap(scope, query.organization_id)), 'member-id-map')),
]
