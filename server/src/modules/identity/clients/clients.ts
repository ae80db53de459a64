import { InvalidClient, InvalidRequest, RegistrationTokenMissing, type OAuth2Client, type OAuth2ClientConfiguration } from '@bursar/contract'
import type { Anonymous, UserActor } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newClientId, newToken, readToken, sameText, Secret, type TokenKind } from '../../../kernel/secrets.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Call, Platform } from '../../handlers.ts'
import { addCredential, dropCredentials, findSubject } from '../credentials/credentials.sql.ts'
import { endGrantsOf } from '../grants/grants.ts'
import { changeClient, findClient, insertClient, lockClient, secretHashOf, type ClientRow } from './clients.sql.ts'

const configured = (wish: OAuth2ClientConfiguration) => ({
  client_name: wish.client_name,
  client_uri: wish.client_uri ?? null,
  logo_uri: wish.logo_uri ?? null,
  tos_uri: wish.tos_uri ?? null,
  policy_uri: wish.policy_uri ?? null,
  redirect_uris: [...new Set(wish.redirect_uris)],
  token_endpoint_auth_method: wish.token_endpoint_auth_method,
  grant_types: [...new Set(wish.grant_types)],
  scopes: [...new Set(wish.scope.split(' '))],
  default_sub_type: wish.default_sub_type,
})

export const isPublic = (client: Pick<ClientRow, 'token_endpoint_auth_method'>): boolean => client.token_endpoint_auth_method === 'none'

/** Issues a client secret or a registration token. Only the hash is stored. */
const issue = async (tx: Tx, platform: Platform, kind: TokenKind & ('client_secret' | 'client_registration'), id: string): Promise<Secret> => {
  const secret = newToken(kind, platform.config.environment)
  await addCredential(tx, platform.hasher, secret, { kind, subject_id: id, organization_id: null })
  return secret
}

/** Registers an OAuth client. If a user is signed in, they own the client. A public client has no secret. A new client is not verified. */
export const registerClient = async (tx: Tx, platform: Platform, wish: OAuth2ClientConfiguration, owner_id: string | null) => {
  const wall = tx.clock.wall()
  const client = await insertClient(tx, {
    client_id: newClientId(platform.config.environment),
    id: newId(wall),
    created_at: wall,
    modified_at: null,
    deleted_at: null,
    owner_id,
    verified_at: null,
    ...configured(wish),
  })
  return {
    client,
    client_secret: isPublic(client) ? undefined : await issue(tx, platform, 'client_secret', client.id),
    registration_access_token: await issue(tx, platform, 'client_registration', client.id),
  }
}

type Visitor = Pick<Call, 'raw' | 'platform'> & { actor: Anonymous | UserActor }

/** Finds the client if the visitor has its registration token or owns it. An unknown client and another owner's client give the same error. */
export const findManaged = async (db: Db, visitor: Visitor, client_id: string): Promise<ClientRow> => admit(db, visitor, await findClient(db, client_id))

/** Finds and locks the client under the same conditions as `findManaged`. */
export const lockManaged = async (tx: Tx, visitor: Visitor, client_id: string): Promise<Locked<ClientRow>> => {
  const client = await lockClient(tx, client_id)
  await admit(tx, visitor, client)
  return client!
}

const admit = async (db: Db, { raw, actor, platform }: Visitor, client: ClientRow | undefined): Promise<ClientRow> => {
  const [, presented] = /^Bearer +([\x21-\x7e]+) *$/i.exec(String(raw.headers.authorization ?? '')) ?? []
  if (presented === undefined && actor.kind === 'anonymous') throw new RegistrationTokenMissing()
  if (presented !== undefined) {
    const reading = readToken(presented)
    const subject =
      typeof reading !== 'string' && reading.kind === 'client_registration' ? await findSubject(db, platform.hasher, new Secret(presented)) : undefined
    if (client && subject?.kind === 'client_registration' && subject.subject_id === client.id) return client
    // An operator without a second factor may not change their account, and therefore not their clients.
  } else if (client && actor.kind === 'user' && actor.scopes.has('user:write') && client.owner_id === actor.user_id) return client
  throw new InvalidClient(undefined, { 'www-authenticate': 'Bearer realm="bursar", error="invalid_client"' })
}

/** Replaces the configuration of a client. A confidential client without a secret gets one. A client that becomes public loses its secret. */
export const updateClient = async (
  tx: Tx,
  platform: Platform,
  client: Locked<ClientRow>,
  wish: OAuth2ClientConfiguration & { client_id: string; client_secret?: string | undefined },
) => {
  if (wish.client_id !== client.client_id)
    throw new InvalidRequest({ loc: ['body', 'client_id'], msg: 'Expected the client_id of the path.', type: 'value_error', input: wish.client_id })
  if (wish.client_secret !== undefined && !(await isSecretOf(tx, platform, client, wish.client_secret)))
    throw new InvalidRequest({ loc: ['body', 'client_secret'], msg: 'This is not the current secret of the client.', type: 'value_error' })
  const wanted = configured(wish)
  // An operator verifies the client's name, its URLs, its redirect URIs and its authentication method. A change of any of these ends the verification.
  const same = (['client_name', 'client_uri', 'tos_uri', 'policy_uri', 'token_endpoint_auth_method', 'redirect_uris'] as const).every(
    (field) => JSON.stringify(wanted[field]) === JSON.stringify(client[field]),
  )
  const changed = await changeClient(tx, client.client_id, { ...wanted, modified_at: tx.clock.wall(), ...(same ? {} : { verified_at: null }) })
  if (isPublic(changed) && !isPublic(client)) await dropCredentials(tx, 'client_secret', client.id)
  // A client that was public until now has no secret yet. A client whose secret leaked has lost its secret.
  const lacking = !isPublic(changed) && (await secretHashOf(tx, client.id)) === undefined
  return { client: changed, client_secret: lacking ? await issue(tx, platform, 'client_secret', client.id) : undefined }
}

const isSecretOf = async (db: Db, { hasher }: Platform, client: ClientRow, secret: string) => {
  const stored = (await secretHashOf(db, client.id)) ?? ''
  return hasher.candidates(new Secret(secret)).some((hash) => sameText(hash, stored))
}

/** Deletes the client and all its grants. Its tokens are rejected from the next request on. */
export const deleteClient = async (tx: Tx, client: Locked<ClientRow>): Promise<void> => {
  await changeClient(tx, client.client_id, { deleted_at: tx.clock.wall() })
  await dropCredentials(tx, 'client_secret', client.id)
  await dropCredentials(tx, 'client_registration', client.id)
  await endGrantsOf(tx, client.client_id)
}

/** Verifies an app, or withdraws the verification. Only for the operator. Returns false if the client does not exist. */
export const vouch = async (tx: Tx, client_id: string, verified: boolean): Promise<boolean> => {
  const client = await lockClient(tx, client_id)
  if (client) await changeClient(tx, client_id, { verified_at: verified ? tx.clock.wall() : null })
  return client !== undefined
}

export const presentClient = (client: ClientRow): OAuth2Client => ({
  created_at: client.created_at,
  modified_at: client.modified_at,
  client_id: client.client_id,
  client_id_issued_at: Math.floor(client.created_at.getTime() / 1000),
  redirect_uris: client.redirect_uris,
  token_endpoint_auth_method: client.token_endpoint_auth_method,
  grant_types: client.grant_types,
  response_types: ['code'],
  scope: client.scopes.join(' '),
  client_name: client.client_name,
  client_uri: client.client_uri,
  logo_uri: client.logo_uri,
  tos_uri: client.tos_uri,
  policy_uri: client.policy_uri,
  default_sub_type: client.default_sub_type,
  verified: client.verified_at !== null,
})

type Shown = 'created_at' | 'modified_at' | 'client_id' | 'client_name' | 'client_uri' | 'logo_uri' | 'tos_uri' | 'policy_uri'

/** Presents the public data of a client. */
export const presentPublicly = (client: Pick<ClientRow, Shown>) => ({
  created_at: client.created_at,
  modified_at: client.modified_at,
  client_id: client.client_id,
  client_name: client.client_name,
  client_uri: client.client_uri,
  logo_uri: client.logo_uri,
  tos_uri: client.tos_uri,
  policy_uri: client.policy_uri,
})

export const presentRegistration = (
  platform: Platform,
  {
    client,
    client_secret,
    registration_access_token,
  }: { client: ClientRow; client_secret?: Secret | undefined; registration_access_token?: Secret | undefined },
) => ({
  ...presentClient(client),
  ...(client_secret ? { client_secret: client_secret.reveal() } : {}),
  client_secret_expires_at: 0,
  registration_client_uri: new URL(`/v1/oauth2/register/${client.client_id}`, platform.config.public_url).href,
  ...(registration_access_token ? { registration_access_token: registration_access_token.reveal() } : {}),
})
