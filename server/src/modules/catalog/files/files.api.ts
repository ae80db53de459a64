import { completeFile, createFile, deleteFile, listFiles, paginate, updateFile } from '@bursar/contract'
import { read, steps, sweep, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { remove } from './deleting.ts'
import { listFiles as list } from './files.sql.ts'
import { begin, beginCompletion, complete, openUpload, update } from './files.ts'
import { present } from './presenting.ts'
import { tend } from './tending.ts'

export const operations = [
  read(listFiles, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'products:read'), query)
    return paginate(query, items.map(present), total, next_cursor)
  }),
  steps(createFile, {
    // Only to know the addresses: nobody is asked anything.
    look: async ({ gateways }) => gateways.storage,
    begin: (tx, { reach, body }, storage) => begin(tx, reach, storage, body),
    proceed: (means, _, file) => openUpload(means, file),
  }),
  steps(completeFile, {
    begin: (tx, { reach, params, body }) => beginCompletion(tx, reach, params.id, body),
    proceed: (means, { body }, file) => complete(means, file, body),
  }),
  write(updateFile, async (tx, { reach, params, body }) => present(await update(tx, reach, params.id, body))),
  write(deleteFile, (tx, { reach, params }) => remove(tx, reach, params.id)),
]

export const sweeps = [sweep('catalog.tend_files', tend)]
