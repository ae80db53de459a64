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
import type { Reach } from '../../../kernel/actors.ts'
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

/** The organizations whose tokens this person may manage, of those they asked for. */
const manageable = (reach: Reach, wanted: readonly string[]): Reach => ({
  ...reach,
  organizations: new Map([...reach.organizations].filter(([id]) => permits(reach, id, 'organization:manage') && (wanted.length === 0 || wanted.includes(id)))),
})

export const operations = [
  read(listOrganizationTokens, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await listOrganizational(db, manageable(reach, query.organization_id), query)
    return paginate(query, items, total, next_cursor)
  }),
  write(createOrganizationToken, async (tx, { reach, body, platform }) => {
    const organization_id = chooseOrganization(reach, body.organization_id)
    permit(reach, organization_id, 'organization:manage')
    const { secret, token } = await issueOrganizationToken(tx, platform, organization_id, body)
    return { organization_access_token: token, token: secret.reveal() }
  }),
  write(updateOrganizationToken, async (tx, { reach, params, body }) =>
    changeOrganizationToken(tx, await findOrganizationToken(tx, reach, params.id), changesOf(tx, body)),
  ),
  write(revokeOrganizationToken, async (tx, { reach, params }) => {
    await revokeOrganizational(tx, await findOrganizationToken(tx, reach, params.id))
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
