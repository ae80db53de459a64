import { getTaxSettings, updateTaxSettings } from '@bursar/contract'
import { job, read, write } from '../../handlers.ts'
import { confirmTax, reverseTax } from './reporting.ts'
import { requireTaxes, updateTaxes } from './taxes.ts'

export const operations = [
  read(getTaxSettings, (db, { scope, query }) => requireTaxes(db, scope, query.organization_id)),
  write(updateTaxSettings, (tx, { scope, body, platform }) => updateTaxes(tx, scope, platform, body)),
]

export const jobs = [job('billing.confirm_tax', confirmTax), job('billing.reverse_tax', reverseTax)]
