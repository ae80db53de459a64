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

export { avatarOf } from './customers/avatars.ts'
export {
  clockOf,
  findCustomerIds,
  findCustomers,
  holdAddress,
  loadCustomers,
  lockByEmail as lockCustomerByEmail,
  lockCustomers,
  touchState,
  type CustomerRow,
} from './customers/customers.sql.ts'
export {
  becomeBuyer,
  change as changeCustomer,
  changeBilling,
  complete as completeAddress,
  create as createCustomer,
  createHolder,
  find as findCustomer,
  lookAfterDeleted,
  present as presentCustomer,
} from './customers/customers.ts'
export { noticeFiltered, ofCustomers, shownCustomer } from './lens.sql.ts'
export { findMember, findMemberByEmail, findOwner as findOwnerOf, loadMembers, loadOwners, ownedBy, type MemberRow } from './members/members.sql.ts'
export { add as addMember, insert as insertMember, nameMember, present as presentMember } from './members/members.ts'
export { holdStanding, presentOwn } from './portal/portal.ts'
export { allow, allows } from './portal/roles.ts'
export { endUnproved, open as openCustomerSession } from './sessions/sessions.ts'
export { create as createTestClock } from './test-clocks/test-clocks.ts'
