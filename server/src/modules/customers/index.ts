import type { Area } from '../handlers.ts'
import * as forgetting from './customers/forgetting.api.ts'
import { operations as customers } from './customers/customers.api.ts'
import { operations as members } from './members/members.api.ts'
import * as portal from './portal/portal.api.ts'
import { operations as testClocks } from './test-clocks/test-clocks.api.ts'
import * as sessions from './sessions/sessions.api.ts'

export const area: Area = {
  operations: [...customers, ...members, ...sessions.operations, ...portal.operations, ...testClocks],
  jobs: [...sessions.jobs, ...portal.jobs, ...forgetting.jobs],
  sweeps: [],
  periodicTasks: [...sessions.periodicTasks, ...forgetting.periodicTasks],
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
    // The anonymization deletes these rows: see `customers/forgetting.sql.ts`.
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
  lockCustomerByEmail,
  lockCustomers,
  touchState,
  touchStates,
} from './records/customers.sql.ts'
export { customerColumns, customerFromJson, customerJson, enabled, exists, type CustomerRow, type Marked } from './records/customer-rows.sql.ts'
export {
  becomeBuyer,
  changeCustomer,
  changeBilling,
  completeAddress,
  createCustomer,
  createHolder,
  lookAfterDeleted,
  presentCustomer,
} from './customers/customers.ts'
export { movedFrom } from './records/moved.sql.ts'
export { customerShownOn, noticeFiltered, ofCustomers, shownCustomer, shownWithCustomer } from './records/member-phase.sql.ts'
export { findMember, findOwnerOf, loadMembers, memberColumns, memberFromJson, ownedBy, ownerWhere } from './records/members.sql.ts'
export { type MemberRow } from './records/member-rows.sql.ts'
export { addMember, memberWithAddress, presentMember } from './members/members.ts'
export { holdStanding, presentOwn } from './portal/portal.ts'
export { allow, allows } from './portal/roles.ts'
export { endUnproved, openCustomerSession } from './sessions/sessions.ts'
export { createTestClock } from './test-clocks/test-clocks.ts'
export { findCustomer, permittedOne } from './records/customers.ts'
export { languageOfCustomer } from './records/language.ts'
