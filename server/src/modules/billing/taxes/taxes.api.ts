import { getTaxSettings, updateTaxSettings } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { requireTaxes, updateTaxes } from './taxes.ts'

export const operations = [
  read(getTaxSettings, (db, { scope, query }) => requireTaxes(db, scope, query.organization_id)),
  write(updateTaxSettings, (tx, { scope, body }) => updateTaxes(tx, scope, body)),
]
