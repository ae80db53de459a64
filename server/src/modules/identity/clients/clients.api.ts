import { deleteClient, getClient, listClients, paginate, registerClient, updateClient } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { listClientsOf } from './clients.sql.ts'
import {
  deleteClient as end,
  findManaged,
  lockManaged,
  presentClient,
  presentRegistration,
  registerClient as register,
  updateClient as change,
} from './clients.ts'

export const operations = [
  write(registerClient, async (tx, { actor, body, platform }) =>
    presentRegistration(platform, await register(tx, platform, body, actor.kind === 'user' ? actor.user_id : null)),
  ),
  read(getClient, async (db, call) => presentRegistration(call.platform, { client: await findManaged(db, call, call.params.client_id) })),
  write(updateClient, async (tx, call) =>
    presentRegistration(call.platform, await change(tx, call.platform, await lockManaged(tx, call, call.params.client_id), call.body)),
  ),
  write(deleteClient, async (tx, call) => end(tx, await lockManaged(tx, call, call.params.client_id))),
  read(listClients, async (db, { actor, query }) => {
    const { items, total, next_cursor } = await listClientsOf(db, actor.user_id, query)
    return paginate(query, items.map(presentClient), total, next_cursor)
  }),
]
