import { exportMemberIdMap, getMemberIdMap } from '@bursar/contract'
import { download } from '../../exports.ts'
import { read, stream } from '../../handlers.ts'
import { chooseMap, readMap } from './ids.ts'
import { pairsExport } from './ids.sql.ts'

export const operations = [
  read(getMemberIdMap, (db, { reach, query }) => readMap(db, reach, query)),
  stream(exportMemberIdMap, (run, { reach, query, reply }) => download(run, reply, pairsExport(chooseMap(reach, query.organization_id)), 'member-id-map')),
]
