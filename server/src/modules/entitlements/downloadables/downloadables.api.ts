import { listDownloadables, listFilesOfBenefit, paginate, redeemDownload } from '@bursar/contract'
import { loadFiles, presentDownloadable } from '../../catalog/index.ts'
import { read, multiStep } from '../../handlers.ts'
import { findWithFiles, lead, presentDownloadables, redeem } from './downloadables.ts'
import { countsOf, listBenefitFiles, listOwnDownloadables } from './downloadables.sql.ts'

export const operations = [
  read(listFilesOfBenefit, async (db, { scope, params, query }) => {
    const benefit = await findWithFiles(db, scope, params.id)
    const { keys, total, next_cursor } = await listBenefitFiles(db, benefit, query)
    const counts = await countsOf(
      db,
      benefit,
      keys.map(({ id }) => id),
    )
    const items = (await loadFiles(db, keys)).map((file) => ({ ...presentDownloadable(file), ...(counts.get(file.id) ?? { downloads: 0, downloaders: 0 }) }))
    return paginate(query, items, total, next_cursor)
  }),
  read(listDownloadables, async (db, { actor, scope, query, platform }) => {
    const { items, total, next_cursor } = await listOwnDownloadables(db, scope, actor, query)
    return paginate(query, await presentDownloadables(db, platform, items), total, next_cursor)
  }),
  multiStep(redeemDownload, {
    begin: (tx, { params, platform }) => redeem(tx, platform, params.token),
    proceed: async (deps, { reply }, file) => {
      reply.location = await lead(deps, file)
    },
  }),
]
