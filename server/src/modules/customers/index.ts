import type { Area } from '../handlers.ts'
import * as forgetting from './forgetting/forgetting.api.ts'
import { operations as customers } from './customers/customers.api.ts'
import { operations as members } from './members/members.api.ts'
import * as portal from './portal/portal.api.ts'
import { operations as testClocks } from './test-clocks/test-clocks.api.ts'
import * as sessions from './sessions/sessions.api.ts'

export const area: Area = {
  operations: [...customers, ...members, ...sessions.operations, ...portal.operations, ...testClocks],
  jobs: [...sessions.jobs, ...portal.jobs, ...forgetting.jobs],
  sweeps: [],
  chores: sessions.chores,
  personal: {
    customers: {
      of: 'id',
      columns: {
        email: 'address',
        name: 'nothing',
        external_id: 'nothing',
        billing_name: 'nothing',
        billing_address: 'nothing',
        tax_id: 'nothing',
        tax_id_format: 'nothing',
        metadata: 'empty',
      },
    },
    members: { of: 'customer_id', columns: { email: 'address', name: 'nothing', external_id: 'nothing' } },
    customer_email_changes: { of: 'customer_id', columns: { email: 'address', previous_email: 'address' } },
    // Deleted with the person: see forgetting.
    customer_session_codes: { columns: { email: 'address' } },
  },
}

export {
  clockOf,
  findCustomerIds,
  findCustomers,
  loadCustomers,
  lockByEmail as lockCustomerByEmail,
  lockCustomers,
  type CustomerRow,
} from './customers/customers.sql.ts'
export {
  change as changeCustomer,
  changeBilling,
  complete as completeAddress,
  create as createCustomer,
  present as presentCustomer,
} from './customers/customers.ts'
export { findOwner as findOwnerOf } from './members/members.sql.ts'
export { add as addMember } from './members/members.ts'
export { holdStanding } from './portal/portal.ts'
export { allow } from './portal/roles.ts'
export { open as openCustomerSession } from './sessions/sessions.ts'
export { create as createTestClock } from './test-clocks/test-clocks.ts'
