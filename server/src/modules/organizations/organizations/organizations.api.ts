import {
  CannotCreateOrganizationError,
  createOrganization,
  getOrganization,
  listOrganizations,
  paginate,
  ResourceNotFound,
  updateOrganization,
} from '@bursar/contract'
import { readSwitches } from '../../../platform/postgres/migrations.ts'
import { read, write } from '../../handlers.ts'
import { create, present, update } from './organizations.ts'
import { findOrganization, insertMembership, listOrganizations as list } from './organizations.sql.ts'

export const operations = [
  read(listOrganizations, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, reach, query)
    return paginate(query, items.map(present), total, next_cursor)
  }),

  write(createOrganization, async (tx, { actor, reach, body, platform }) => {
    if (actor.kind !== 'user' || actor.restricted || reach.confined)
      throw new CannotCreateOrganizationError('This credential is confined to one organization, so it cannot create another.')
    if (!actor.is_operator && !(await readSwitches(tx)).organization_creation_open) throw new CannotCreateOrganizationError()
    const organization = await create(tx, body, platform.config.environment)
    await insertMembership(tx, organization.id, actor.user_id, 'owner', tx.clock.business())
    return present(organization)
  }),

  read(getOrganization, async (db, { reach, params }) => {
    const organization = await findOrganization(db, reach, params.id)
    if (!organization) throw new ResourceNotFound()
    return present(organization)
  }),

  write(updateOrganization, async (tx, { reach, params, body }) => present(await update(tx, reach, params.id, body))),
]
