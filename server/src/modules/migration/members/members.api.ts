import {
  exportMemberMigration,
  getMemberMigration,
  rehearseMemberMigration,
  sealMemberMigration,
  startMemberMigration,
  switchMemberMigration,
  undoMemberMigration,
} from '@bursar/contract'
import { download } from '../../exports.ts'
import { read, stream, write, type Implementation } from '../../handlers.ts'
import { planExport } from './exporting.sql.ts'
import { choose, find, needAhead, present, seal, start, switchOn, undo } from './migrating.ts'
import { rehearse } from './rehearsing.ts'

export const operations: readonly Implementation[] = [
  read(getMemberMigration, async (db, { reach, query }) => present(db, await find(db, reach, choose(reach, query.organization_id)))),
  read(rehearseMemberMigration, (db, { reach, query }) => rehearse(db, reach, choose(reach, query.organization_id))),
  stream(exportMemberMigration, async (run, { reach, query, reply }) => {
    const organization_id = choose(reach, query.organization_id)
    needAhead(reach, organization_id)
    return download(run, reply, planExport(organization_id), 'member-migration')
  }),
  write(startMemberMigration, async (tx, { reach, body }) => present(tx, await start(tx, reach, choose(reach, body.organization_id)))),
  write(switchMemberMigration, async (tx, { reach, body, platform }) => present(tx, await switchOn(tx, reach, platform, choose(reach, body.organization_id)))),
  write(undoMemberMigration, async (tx, { reach, body }) => present(tx, await undo(tx, reach, choose(reach, body.organization_id)))),
  write(sealMemberMigration, async (tx, { reach, body }) => present(tx, await seal(tx, reach, choose(reach, body.organization_id)))),
]
