import {
  createOrganizationToken,
  createPersonalToken,
  listOrganizationTokens,
  listPersonalTokens,
  paginate,
  revokeOrganizationToken,
  revokePersonalToken,
  updateOrganizationToken,
  updatePersonalToken,
} from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { read, write } from '../../handlers.ts'
import { chooseOrganization, permit, permits } from '../../organizations/index.ts'
import { changeOrganizationToken, changePersonalToken, listOrganizationTokens as listOrganizational, listPersonalTokens as listPersonal } from './tokens.sql.ts'
import {
  changesOf,
  findOrganizationToken,
  findPersonalToken,
  issueOrganizationToken,
  issuePersonalToken,
  revokeOrganizationToken as revokeOrganizational,
  revokePersonalToken as revokePersonal,
} from './tokens.ts'

/** Narrows the tenant scope to the requested organizations whose tokens this user may manage. */
const manageable = (scope: TenantScope, wanted: readonly string[]): TenantScope => ({
  ...scope,
  organizations: new Map([...scope.organizations].filter(([id]) => permits(scope, id, 'organization:manage') && (wanted.length === 0 || wanted.includes(id)))),
})

export const operations = [
  read(listOrganizationTokens, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await listOrganizational(db, manageable(scope, query.organization_id), query)
    return paginate(query, items, total, next_cursor)
  }),
  write(createOrganizationToken, async (tx, { scope, body, platform }) => {
    const organization_id = chooseOrganization(scope, body.organization_id)
    permit(scope, organization_id, 'organization:manage')
    const { secret, token } = await issueOrganizationToken(tx, platform, organization_id, body)
    return { organization_access_token: token, token: secret.reveal() }
  }),
  write(updateOrganizationToken, async (tx, { scope, params, body }) =>
    changeOrganizationToken(tx, await findOrganizationToken(tx, scope, params.id), changesOf(tx, body)),
  ),
  write(revokeOrganizationToken, async (tx, { scope, params }) => {
    await revokeOrganizational(tx, await findOrganizationToken(tx, scope, params.id))
  }),

  read(listPersonalTokens, async (db, { actor, query }) => {
    const { items, total, next_cursor } = await listPersonal(db, actor.user_id, query)
    return paginate(query, items, total, next_cursor)
  }),
  write(createPersonalToken, async (tx, { actor, body, platform }) => {
    const { secret, token } = await issuePersonalToken(tx, platform, actor.user_id, body)
    return { personal_access_token: token, token: secret.reveal() }
  }),
  write(updatePersonalToken, async (tx, { actor, params, body }) =>
    changePersonalToken(tx, await findPersonalToken(tx, actor, params.id), changesOf(tx, body)),
  ),
  write(revokePersonalToken, async (tx, { actor, params }) => {
    await revokePersonal(tx, await findPersonalToken(tx, actor, params.id))
  }),
]
