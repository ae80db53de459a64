import type { Area } from '../handlers.ts'
import { operations as customers } from './customers/customers.api.ts'
import { operations as members } from './members/members.api.ts'
import * as portal from './portal/portal.api.ts'
import * as sessions from './sessions/sessions.api.ts'

export const area: Area = {
  operations: [...customers, ...members, ...sessions.operations, ...portal.operations],
  jobs: [...sessions.jobs, ...portal.jobs],
  sweeps: [],
  chores: sessions.chores,
}

export { create as createCustomer } from './customers/customers.ts'
export { add as addMember } from './members/members.ts'
export { open as openCustomerSession } from './sessions/sessions.ts'
