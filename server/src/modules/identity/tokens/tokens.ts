import { ResourceNotFound, type OrganizationAccessToken, type PersonalAccessToken, type Scope } from '@bursar/contract'
import { within, type TenantScope, type UserActor } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { hintOf, newToken, type Secret, type TokenKind } from '../../../kernel/secrets.ts'
import { later, seconds } from '../../../platform/clock.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { permit } from '../../organizations/index.ts'
import { addCredential, dropCredentials } from '../credentials/credentials.sql.ts'
import {
  changeOrganizationToken,
  changePersonalToken,
  insertOrganizationToken,
  insertPersonalToken,
  listOrganizationTokens,
  lockOrganizationToken,
  lockPersonalToken,
} from './tokens.sql.ts'

export interface TokenRequest {
  readonly comment: string
  readonly scopes: readonly Scope[]
  /** Lifetime in seconds. Null or absent means no expiry. */
  readonly expires_in?: number | null | undefined
}

const prepare = (tx: Tx, platform: Platform, kind: TokenKind, wish: TokenRequest) => {
  const wall = tx.clock.wall()
  const secret = newToken(kind, platform.config.environment)
  const token: PersonalAccessToken = {
    id: newId(wall),
    created_at: wall,
    modified_at: null,
    comment: wish.comment,
    scopes: [...new Set(wish.scopes)],
    expires_at: wish.expires_in === null || wish.expires_in === undefined ? null : later(wall, wish.expires_in * seconds),
    last_used_at: null,
    hint: hintOf(secret),
  }
  return { secret, token }
}

/** Issues an organization token. Returns the secret, which cannot be read again, because only its hash is stored. */
export const issueOrganizationToken = async (
  tx: Tx,
  platform: Platform,
  organization_id: string,
  wish: TokenRequest,
): Promise<{ secret: Secret; token: OrganizationAccessToken }> => {
  const { secret, token } = prepare(tx, platform, 'organization', wish)
  const stored = await insertOrganizationToken(tx, { ...token, organization_id })
  await addCredential(tx, platform.hasher, secret, { kind: 'organization', subject_id: token.id, organization_id })
  return { secret, token: stored }
}

export const issuePersonalToken = async (
  tx: Tx,
  platform: Platform,
  user_id: string,
  wish: TokenRequest,
): Promise<{ secret: Secret; token: PersonalAccessToken }> => {
  const { secret, token } = prepare(tx, platform, 'personal', wish)
  const stored = await insertPersonalToken(tx, { ...token, user_id })
  await addCredential(tx, platform.hasher, secret, { kind: 'personal', subject_id: token.id, organization_id: null })
  return { secret, token: stored }
}

/** Revokes the token and its credential in one transaction, so that it is rejected from the next request on. */
export const revokeOrganizationToken = async (tx: Tx, token: Pick<OrganizationAccessToken, 'organization_id' | 'id'>): Promise<void> => {
  await changeOrganizationToken(tx, token, { revoked_at: tx.clock.wall() })
  await dropCredentials(tx, 'organization', token.id)
}

export const revokePersonalToken = async (tx: Tx, token: Pick<PersonalAccessToken, 'id'>): Promise<void> => {
  await changePersonalToken(tx, token, { revoked_at: tx.clock.wall() })
  await dropCredentials(tx, 'personal', token.id)
}

export const findOrganizationToken = async (tx: Tx, scope: TenantScope, id: string) => {
  const token = await lockOrganizationToken(tx, scope, id)
  if (!token) throw new ResourceNotFound()
  permit(scope, token.organization_id, 'organization:manage')
  return token
}

export const findPersonalToken = async (tx: Tx, actor: UserActor, id: string) => {
  const token = await lockPersonalToken(tx, actor.user_id, id)
  if (!token) throw new ResourceNotFound()
  return token
}

const inside = (organization_id: string): TenantScope => within(organization_id, 'machine', 'phase2')

/** Returns the active tokens of one organization, for the commands of the operator. */
export const tokensOf = async (db: Db, organization_id: string) =>
  (await listOrganizationTokens(db, inside(organization_id), { page: 1, limit: 100, sorting: ['created_at'] })).items

export const revokeTokenOf = async (tx: Tx, organization_id: string, id: string): Promise<boolean> => {
  const token = await lockOrganizationToken(tx, inside(organization_id), id)
  if (token) await revokeOrganizationToken(tx, token)
  return token !== undefined
}

/** Builds the changes of a token. Absent fields stay unchanged. */
export const changesOf = (tx: Tx, body: { comment?: string | undefined; scopes?: Scope[] | undefined }) => ({
  modified_at: tx.clock.wall(),
  ...(body.comment === undefined ? {} : { comment: body.comment }),
  ...(body.scopes === undefined ? {} : { scopes: [...new Set(body.scopes)] }),
})
