import { completeFile, createFile, listFiles, paginate, updateFile } from '@bursar/contract'
import { read, multiStep, sweep, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { listFiles as list } from './files.sql.ts'
import * as files from './files.ts'
import { presentFile } from './presenting.ts'
import { tend } from './tending.ts'

export const operations = [
  read(listFiles, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'products:read'), query)
    return paginate(query, items.map(presentFile), total, next_cursor)
  }),
  multiStep(createFile, {
    // Passes the storage gateway to `begin`, which only builds URLs with it. No request is sent to the store.
    look: async ({ gateways }) => gateways.storage,
    begin: (tx, { scope, body, platform }, storage) => files.begin(tx, scope, storage, body, platform.config.files),
    proceed: (deps, _, file) => files.openUpload(deps, file),
  }),
  multiStep(completeFile, {
    begin: (tx, { scope, params, body }) => files.beginCompletion(tx, scope, params.id, body),
    proceed: (deps, { body }, file) => files.complete(deps, file, body),
  }),
  write(updateFile, async (tx, { scope, params, body }) => presentFile(await files.updateFile(tx, scope, params.id, body))),
]

export const sweeps = [sweep('catalog.tend_files', tend)]
