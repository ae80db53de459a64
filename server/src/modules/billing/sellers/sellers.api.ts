import { getSellerIdentity, updateSellerIdentity } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { requireSellerDetails, updateSellerDetails } from './sellers.ts'

export const operations = [
  read(getSellerIdentity, (db, { scope, query }) => requireSellerDetails(db, scope, query.organization_id)),
  write(updateSellerIdentity, (tx, { scope, body }) => updateSellerDetails(tx, scope, body)),
]
