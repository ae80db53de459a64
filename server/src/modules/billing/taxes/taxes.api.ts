import { getTaxSettings, updateTaxSettings } from '@bursar/contract'
import { read, write } from '../../handlers.ts'
import { find, update } from './taxes.ts'

export const operations = [
  read(getTaxSettings, (db, { reach, query }) => find(db, reach, query.organization_id)),
  write(updateTaxSettings, (tx, { reach, body }) => update(tx, reach, body)),
]
