import { listGrants, paginate, withdrawGrant } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { presentPublicly } from '../clients/clients.ts'
import { listGrantsOf, type ListedGrant } from '../grants/grants.sql.ts'
import { withdrawApp } from '../grants/grants.ts'

const present = (grant: ListedGrant) => ({
  created_at: grant.created_at,
  modified_at: grant.modified_at,
  client: presentPublicly({ ...grant, created_at: grant.client_created_at, modified_at: grant.client_modified_at }),
  scopes: grant.scopes,
  organizations: grant.organizations ?? [],
  last_authorized_at: grant.last_authorized_at,
})

export const operations = [
  read(listGrants, async (db, { actor, query }) => {
    const { items, total, next_cursor } = await listGrantsOf(db, actor.user_id, query)
    return paginate(query, items.map(present), total, next_cursor)
  }),
  write(withdrawGrant, async (tx, { actor, params }) => withdrawApp(tx, actor.user_id, params.client_id)),
]
