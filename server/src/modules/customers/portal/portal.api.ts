import {
  addPortalMember,
  checkEmailUpdate,
  getPortalCustomer,
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
import { listMethods } from '../customers/customers.sql.ts'
import { listMembers } from '../members/members.sql.ts'
import {
  addToTeam,
  checkEmailChange,
  findOwn,
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
  read(getPortalCustomer, async (db, { actor, reach }) => presentOwn(await findOwn(db, reach, actor), actor.role)),
  write(updatePortalCustomer, async (tx, { actor, reach, body }) => presentOwn(await updateOwn(tx, reach, actor, body), actor.role)),
  read(listPortalPaymentMethods, async (db, { actor, reach, query }) => {
    allow(actor.role, 'billing:read')
    const { items, total, next_cursor } = await listMethods(db, await findOwn(db, reach, actor), query)
    return paginate(query, items, total, next_cursor)
  }),
  write(requestEmailUpdate, async (tx, { actor, reach, body }) => {
    await requestEmailChange(tx, reach, actor, body.email)
    return {}
  }),
  read(checkEmailUpdate, (db, { query, platform }) => checkEmailChange(db, platform, query.token)),
  write(verifyEmailUpdate, async (tx, { body, platform }) => ({ token: (await verifyEmailChange(tx, platform, body.token))?.reveal() ?? '' })),

  read(listPortalMembers, async (db, { actor, reach, query }) => {
    allow(actor.role, 'team:manage')
    refuseIndividual(await findOwn(db, reach, actor))
    const { items, total, next_cursor } = await listMembers(db, reach, { ...query, sorting: ['-created_at'], customer_id: actor.customer_id })
    return paginate(query, items, total, next_cursor)
  }),
  write(addPortalMember, (tx, { actor, reach, body }) => addToTeam(tx, reach, actor, body)),
  write(updatePortalMember, (tx, { actor, reach, params, body }) => updateInTeam(tx, reach, actor, params.id, body)),
  write(removePortalMember, (tx, { actor, reach, params }) => removeFromTeam(tx, reach, actor, params.id)),
]

export const jobs = [job('mail.customer_email_change', mailEmailChange), job('mail.customer_email_changed', mailEmailChanged)]
