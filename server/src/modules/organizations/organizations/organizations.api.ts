import {
  CannotCreateOrganizationError,
  createOrganization,
  getOrganization,
  listOrganizations,
  paginate,
  ResourceNotFound,
  updateOrganization,
} from '@bursar/contract'
import { phaseOf, type TenantScope } from '../../../kernel/actors.ts'
import { readSwitches } from '../../../platform/migrations/migrations.ts'
import { read, write } from '../../handlers.ts'
import * as organizations from './organizations.ts'
import { findOrganization, insertMembership, listOrganizations as list, type OrganizationRow } from './organizations.sql.ts'

/** Presents the organization in the member phase of the request, which a look-ahead header may change. */
const show = (scope: TenantScope, row: OrganizationRow) => organizations.presentOrganization({ ...row, member_phase: phaseOf(scope, row.id) })

export const operations = [
  read(listOrganizations, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, scope, query)
    return paginate(
      query,
      items.map((row) => show(scope, row)),
      total,
      next_cursor,
    )
  }),

  write(createOrganization, async (tx, { actor, scope, body, platform }) => {
    if (actor.kind !== 'user' || actor.restricted || scope.confined)
      throw new CannotCreateOrganizationError('This credential is restricted to one organization, so it cannot create another.')
    if (!actor.is_operator && !(await readSwitches(tx)).organization_creation_open) throw new CannotCreateOrganizationError()
    const organization = await organizations.createOrganization(tx, body, platform.config.environment)
    await insertMembership(tx, organization.id, actor.user_id, 'owner', tx.clock.wall())
    return organizations.presentOrganization(organization)
  }),

  read(getOrganization, async (db, { scope, params }) => {
    const organization = await findOrganization(db, scope, params.id)
    if (!organization) throw new ResourceNotFound()
    return show(scope, organization)
  }),

  write(updateOrganization, async (tx, { scope, params, body }) =>
    organizations.presentOrganization(await organizations.updateOrganization(tx, scope, params.id, body)),
  ),
]
