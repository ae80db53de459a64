import type { Area } from '../handlers.ts'
import * as checkouts from './checkouts/checkouts.api.ts'
import * as links from './links/links.api.ts'

export const area: Area = {
  operations: [...checkouts.operations, ...links.operations],
  jobs: [...checkouts.jobs, ...links.jobs],
  sweeps: checkouts.sweeps,
  periodicTasks: [],
  personal: {
    checkouts: {
      of: 'customer_id',
      by: { address: 'customer_email', external_id: 'external_customer_id' },
      columns: {
        customer_email: 'address',
        customer_name: 'nothing',
        customer_billing_name: 'nothing',
        customer_billing_address: 'nothing',
        customer_tax_id: 'nothing',
        customer_tax_id_format: 'nothing',
        customer_tax_id_status: 'nothing',
        customer_ip_address: 'nothing',
        external_customer_id: 'nothing',
        custom_field_data: 'empty',
        customer_metadata: 'empty',
        metadata: 'empty',
      },
    },
    // A draft has the id of its checkout. Often only the draft contains the person, so it is also found by the address in it.
    checkout_drafts: {
      of: 'customer_id',
      through: { column: 'id', table: 'checkouts' },
      hashed: 'email_hash',
      columns: { fields_sealed: 'nothing', email_hash: 'nothing' },
    },
  },
  secret: { checkouts: ['secret_sealed', 'confirmed_with'], checkout_links: ['secret_sealed'] },
}

export { createCheckout } from './checkouts/creating.ts'
export { createCheckoutLink } from './links/links.ts'
export { findSellerLook } from './sellers.ts'
export { isConfirming } from './checkouts/checkouts.sql.ts'
