import {
  CannotCreateOrganizationError,
  createOrganization,
  getOrganization,
  listOrganizations,
  paginate,
  ResourceNotFound,
  updateOrganization,
} from '@bursar/contract'
import { phaseOf, type Reach } from '../../../kernel/actors.ts'
import { readSwitches } from '../../../platform/postgres/migrations.ts'
import { read, write } from '../../handlers.ts'
import { create, present, update } from './organizations.ts'
import { findOrganization, insertMembership, listOrganizations as list, type OrganizationRow } from './organizations.sql.ts'

/** In the phase that the whole request sees. */
const show = (reach: Reach, row: OrganizationRow) => present({ ...row, member_phase: phaseOf(reach, row.id) })

export const operations = [
  read(listOrganizations, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, reach, query)
    return paginate(
      query,
      items.map((row) => show(reach, row)),
      total,
      next_cursor,
    )
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
    return show(reach, organization)
  }),

  write(updateOrganization, async (tx, { reach, params, body }) => present(await update(tx, reach, params.id, body))),
]
