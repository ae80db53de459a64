import { getSellerIdentity, updateSellerIdentity } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { find, update } from './sellers.ts'

export const operations = [
  read(getSellerIdentity, (db, { reach, query }) => find(db, reach, query.organization_id)),
  write(updateSellerIdentity, (tx, { reach, body }) => update(tx, reach, body)),
]
