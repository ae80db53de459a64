import {
  addPortalMember,
  checkEmailUpdate,
  getPortalCustomer,
  getPortalUser,
  listPortalMembers,
  listPortalPaymentMethods,
  paginate,
  removePortalMember,
  requestEmailUpdate,
  updatePortalCustomer,
  updatePortalMember,
  verifyEmailUpdate,
} from '@bursar/contract'
import { job, read, write } from '../../handlers.ts'
import { listMethods } from '../records/customers.sql.ts'
import { listMembers } from '../records/members.sql.ts'
import {
  addToTeam,
  checkEmailChange,
  findOwn,
  findPerson,
  mailEmailChange,
  mailEmailChanged,
  presentOwn,
  refuseIndividual,
  removeFromTeam,
  requestEmailChange,
  updateInTeam,
  updateOwn,
  verifyEmailChange,
} from './portal.ts'
import { allow } from './roles.ts'

export const operations = [
  read(getPortalCustomer, async (db, { actor, scope }) => presentOwn(await findOwn(db, scope, actor), actor.role)),
  write(updatePortalCustomer, async (tx, { actor, scope, body }) => presentOwn(await updateOwn(tx, scope, actor, body), actor.role)),
  read(getPortalUser, async (db, { actor, scope }) => {
    const { name, email, has_team } = await findPerson(db, scope, actor)
    const { customer_id, member_id } = actor
    return {
      type: member_id === null ? ('customer' as const) : ('member' as const),
      has_team,
      name,
      email,
      customer_id,
      member_id,
      role: member_id === null ? null : actor.role,
    }
  }),
  read(listPortalPaymentMethods, async (db, { actor, scope, query }) => {
    allow(actor.role, 'billing:read')
    const { items, total, next_cursor } = await listMethods(db, await findOwn(db, scope, actor), query)
    return paginate(query, items, total, next_cursor)
  }),
  write(requestEmailUpdate, async (tx, { actor, scope, body }) => {
    await requestEmailChange(tx, scope, actor, body.email)
    return {}
  }),
  read(checkEmailUpdate, (db, { query, platform }) => checkEmailChange(db, platform, query.token)),
  write(verifyEmailUpdate, async (tx, { body, platform }) => ({ token: (await verifyEmailChange(tx, platform, body.token))?.reveal() ?? '' })),

  read(listPortalMembers, async (db, { actor, scope, query }) => {
    allow(actor.role, 'team:manage')
    refuseIndividual(await findOwn(db, scope, actor))
    const { items, total, next_cursor } = await listMembers(db, scope, { ...query, sorting: ['-created_at'], customer_id: actor.customer_id })
    return paginate(query, items, total, next_cursor)
  }),
  write(addPortalMember, (tx, { actor, scope, body }) => addToTeam(tx, scope, actor, body)),
  write(updatePortalMember, (tx, { actor, scope, params, body }) => updateInTeam(tx, scope, actor, params.id, body)),
  write(removePortalMember, (tx, { actor, scope, params }) => removeFromTeam(tx, scope, actor, params.id)),
]

export const jobs = [job('mail.customer_email_change', mailEmailChange), job('mail.customer_email_changed', mailEmailChanged)]
