import {
  exportMemberMigration,
  getMemberMigration,
  dryRunMemberMigration,
  sealMemberMigration,
  startMemberMigration,
  switchMemberMigration,
  undoMemberMigration,
} from '@bursar/contract'
import { download } from '../../exports.ts'
import { read, stream, write, type Implementation } from '../../handlers.ts'
import { planExport } from './exporting.sql.ts'
import { choose, requireMigration, needAhead, presentMigration, seal, startMigration, switchOn, undo } from './migrating.ts'
import { runDry } from './dry-run.ts'

export const operations: readonly Implementation[] = [
  read(getMemberMigration, async (db, { scope, query }) => presentMigration(db, await requireMigration(db, scope, choose(scope, query.organization_id)))),
  read(dryRunMemberMigration, (db, { scope, query }) => runDry(db, scope, choose(scope, query.organization_id))),
  stream(exportMemberMigration, async (run, { scope, query, reply }) => {
    const organization_id = choose(scope, query.organization_id)
    needAhead(scope, organization_id)
    return download(run, reply, planExport(organization_id), 'member-migration')
  }),
  write(startMemberMigration, async (tx, { scope, body }) => presentMigration(tx, await startMigration(tx, scope, choose(scope, body.organization_id)))),
  write(switchMemberMigration, async (tx, { scope, body, platform }) =>
    presentMigration(tx, await switchOn(tx, scope, platform, choose(scope, body.organization_id))),
  ),
  write(undoMemberMigration, async (tx, { scope, body }) => presentMigration(tx, await undo(tx, scope, choose(scope, body.organization_id)))),
  write(sealMemberMigration, async (tx, { scope, body }) => presentMigration(tx, await seal(tx, scope, choose(scope, body.organization_id)))),
]
