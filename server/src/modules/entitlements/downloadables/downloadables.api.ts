import { listDownloadables, listFilesOfBenefit, paginate, redeemDownload } from '@bursar/contract'
import { loadFiles, presentDownloadable } from '../../catalog/index.ts'
import { read, steps } from '../../handlers.ts'
import { findWithFiles, lead, presentDownloadables, redeem } from './downloadables.ts'
import { countsOf, listBenefitFiles, listOwnDownloadables } from './downloadables.sql.ts'

export const operations = [
  read(listFilesOfBenefit, async (db, { reach, params, query }) => {
    const benefit = await findWithFiles(db, reach, params.id)
    const { keys, total, next_cursor } = await listBenefitFiles(db, benefit, query)
    const counts = await countsOf(
      db,
      benefit,
      keys.map(({ id }) => id),
    )
    const items = (await loadFiles(db, keys)).map((file) => ({ ...presentDownloadable(file), ...(counts.get(file.id) ?? { downloads: 0, downloaders: 0 }) }))
    return paginate(query, items, total, next_cursor)
  }),
  read(listDownloadables, async (db, { actor, reach, query, platform }) => {
    const { items, total, next_cursor } = await listOwnDownloadables(db, reach, actor, query)
    return paginate(query, await presentDownloadables(db, platform, items), total, next_cursor)
  }),
  steps(redeemDownload, {
    begin: (tx, { params, platform }) => redeem(tx, platform, params.token),
    proceed: async (means, { reply }, file) => {
      reply.location = await lead(means, file)
    },
  }),
]
