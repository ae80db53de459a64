import type { IncomingMessage } from 'node:http'
import { errors, Provider, type Adapter, type AdapterPayload } from 'oidc-provider'
import { newId } from '../../../kernel/ids.ts'
import { Secret } from '../../../kernel/secrets.ts'
import { days, hours, later, seconds } from '../../../platform/clock.ts'
import { isForeignKeyViolation, type Postgres } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { isPublic } from '../clients/clients.ts'
import { findClient, secretHashOf, type ClientRow } from '../clients/clients.sql.ts'
import {
  consumeToken,
  dropToken,
  dropVisit,
  endFamilies,
  findFamily,
  findToken,
  findVisit,
  findVisitByUid,
  insertFamily,
  storeToken,
  storeVisit,
  type OAuthTokenKind,
  type VisitKind,
} from '../grants/oauth.sql.ts'

/** Lifetimes of OAuth tokens. The lifetime of a refresh token restarts with each use, but ends with its authorization. */
export const lifetimes = {
  access: 10 * days,
  code: 60 * seconds,
  refresh: 90 * days,
  authorization: 365 * days,
  /** Lifetime of the library's `Grant` model, which represents an authorization. It is longer than any token of the authorization can be valid. */
  family: (365 + 90) * days,
  interaction: 1 * hours,
}

/** Time during which a used refresh token returns the same new token pair again. Needed for parallel tabs and lost responses. */
const refreshGrace = 30 * seconds
/**
 * Time during which a second use of a code from the same IP address is rejected without ending the authorization. Any
 * other second use ends the authorization, because the code may have been stolen.
 */
const codeGrace = 5 * seconds

/** Time, IP address and rate limit of a protocol request. */
export interface Arrival {
  readonly at: Date
  readonly from: string
  /** Counts the request against the rate limit of a client, or of the IP address if no client has authenticated. */
  readonly charge?: (client_id: string | null) => Promise<Record<string, string>>
}

const kinds: Record<string, OAuthTokenKind | undefined> = { AccessToken: 'oauth_access', RefreshToken: 'oauth_refresh', AuthorizationCode: 'oauth_code' }

/** Returns the storage adapter for one model of the OAuth library. Hashing, expiry and single use of tokens are implemented here. */
export const adapterOf = (name: string, { platform, postgres }: Parts, arrivalOf: (request: IncomingMessage) => Arrival, pay: Pay): Adapter => {
  const kind = kinds[name]
  if (kind) return tokenAdapter(kind, { platform, postgres }, arrivalOf, pay)
  if (name === 'Session' || name === 'Interaction') return visitAdapter(name, { platform, postgres })
  if (name === 'Grant') return familyAdapter({ platform, postgres })
  if (name === 'Client') return clientAdapter({ platform, postgres })
  return nothing(name)
}

/** Counts the current request against the rate limit of a client, once per request. */
type Pay = (client_id: string) => Promise<void>

interface Parts {
  readonly platform: Platform
  readonly postgres: Pick<Postgres, 'db' | 'transact'>
}

/** An adapter that rejects every call, for models that we do not use. */
const nothing = (name: string): Adapter => {
  const refuse = async () => {
    throw new Error(`the OAuth provider does not store ${name}`)
  }
  return { upsert: refuse, find: refuse, findByUserCode: refuse, findByUid: refuse, consume: refuse, destroy: refuse, revokeByGrantId: refuse }
}

const epoch = (date: Date) => Math.floor(date.getTime() / 1000)

const tokenAdapter = (kind: OAuthTokenKind, { platform, postgres }: Parts, arrivalOf: (request: IncomingMessage) => Arrival, pay: Pay): Adapter => {
  const { hasher, clock } = platform
  const { db, transact } = postgres
  const digestOf = (address: string) => hasher.hash(new Secret(`address:${address}`))
  const look = (id: string) => findToken(db, hasher, new Secret(id), kind)
  const ends = (family_created_at: Date) => later(family_created_at, lifetimes.authorization)
  return {
    ...nothing(kind),
    upsert: async (id, payload, expiresIn) => {
      const { jti: _, grantId, scope, ...rest } = payload
      const wall = clock.wall()
      const rotated = kind === 'oauth_refresh' ? Provider.ctx?.oidc.entities.RotatedRefreshToken?.jti : undefined
      await transact(async (tx) => {
        const family = await findFamily(tx, grantId!)
        if (!family) throw new errors.InvalidGrant('the authorization has ended')
        const expires = later(wall, expiresIn! * seconds)
        await storeToken(tx, hasher, new Secret(id), {
          id: newId(wall),
          kind,
          family_id: family.id,
          parent_id: rotated === undefined ? null : ((await findToken(tx, hasher, new Secret(rotated), kind))?.id ?? null),
          created_at: wall,
          expires_at: kind === 'oauth_refresh' && expires > ends(family.created_at) ? ends(family.created_at) : expires,
          consumed_at: null,
          consumed_from: null,
          scopes: scope === undefined || scope === '' ? [] : scope.split(' '),
          payload: rest,
        })
      }).catch((error: unknown) => {
        // The user withdrew the consent, or the authorization ended, between the check and this insert.
        throw isForeignKeyViolation(error) ? new errors.InvalidGrant('the authorization has ended') : error
      })
    },
    find: async (id) => {
      const token = await look(id)
      const wall = clock.wall()
      if (!token) return undefined
      const { consumed_at } = token
      // A used authorization code is kept for a day, so that a second use is detected and ends the authorization.
      const used = kind === 'oauth_code' && consumed_at !== null
      if (token.expires_at <= wall && !used) return undefined
      let consumed = consumed_at !== null
      if (consumed_at && kind === 'oauth_refresh') consumed = token.replaced && wall.getTime() - consumed_at.getTime() > refreshGrace
      if (used) {
        const { at, from } = arrivalOf(Provider.ctx!.req)
        consumed = at.getTime() - consumed_at.getTime() > codeGrace || digestOf(from) !== token.consumed_from
      }
      // Rate limit: a confidential client was already counted when its secret was compared. A public client is counted
      // here, when it presents its own code or token.
      const { clientId } = token.payload as AdapterPayload
      const asking = Provider.ctx?.oidc.client?.clientId ?? clientId
      if (!consumed && clientId !== undefined && clientId === asking) await pay(clientId)
      return {
        ...(token.payload as AdapterPayload),
        jti: id,
        grantId: token.family_id,
        scope: token.scopes.join(' '),
        iat: epoch(token.created_at),
        exp: epoch(used ? later(wall, lifetimes.code) : token.expires_at),
        ...(consumed ? { consumed: epoch(consumed_at!) } : {}),
      }
    },
    consume: async (id) => {
      const token = await look(id)
      const first = token !== undefined && (await transact((tx) => consumeToken(tx, token.id, clock.wall(), digestOf(arrivalOf(Provider.ctx!.req).from))))
      if (!first && kind === 'oauth_code') throw new errors.InvalidGrant('authorization code already consumed')
    },
    destroy: async (id) => {
      const token = await look(id)
      if (token) await transact((tx) => dropToken(tx, token.id))
    },
    revokeByGrantId: (family_id) => transact((tx) => endFamilies(tx, [family_id])),
  }
}

const familyAdapter = ({ platform, postgres }: Parts): Adapter => ({
  ...nothing('Grant'),
  upsert: async (id, payload) => {
    const isMade = await postgres.transact((tx) =>
      insertFamily(tx, {
        id,
        client_id: payload.clientId!,
        user_id: payload.accountId!,
        created_at: platform.clock.wall(),
        scopes: ((payload.openid as { scope?: string } | undefined)?.scope ?? '').split(' ').filter((scope) => scope !== ''),
      }),
    )
    if (!isMade) throw new errors.InvalidGrant('the authorization has ended')
  },
  find: async (id) => {
    const family = await findFamily(postgres.db, id)
    if (!family) return undefined
    const { client_id: clientId, user_id: accountId, created_at, scopes } = family
    const exp = epoch(later(created_at, lifetimes.family))
    return { jti: id, kind: 'Grant', clientId, accountId, iat: epoch(created_at), exp, openid: { scope: scopes.join(' ') } }
  },
  destroy: (id) => postgres.transact((tx) => endFamilies(tx, [id])),
})

const visitAdapter = (kind: VisitKind, { platform, postgres }: Parts): Adapter => {
  const { hasher, clock } = platform
  return {
    ...nothing(kind),
    upsert: async (id, payload, expiresIn) => {
      const { jti: _, uid, session, ...rest } = payload as AdapterPayload & { session?: Record<string, unknown> }
      // The id of a session is a secret. It is stored only in the browser's cookie.
      const { cookie: __, ...named } = session ?? {}
      const kept = { ...rest, ...(uid === undefined ? {} : { uid }), ...(session ? { session: named } : {}) }
      const expires_at = later(clock.wall(), expiresIn! * seconds)
      await postgres.transact((tx) =>
        storeVisit(tx, { kind, hash: hasher.hash(new Secret(id)), uid: kind === 'Session' ? (uid ?? null) : null, payload: kept, expires_at }),
      )
    },
    find: async (id) => {
      const visit = await findVisit(postgres.db, kind, hasher.candidates(new Secret(id)), clock.wall())
      return visit && { ...visit.payload, jti: id }
    },
    findByUid: async (uid) => (await findVisitByUid(postgres.db, uid, clock.wall()))?.payload,
    destroy: (id) => postgres.transact((tx) => dropVisit(tx, kind, hasher.candidates(new Secret(id)))),
  }
}

const clientAdapter = ({ postgres }: Parts): Adapter => ({
  ...nothing('Client'),
  find: async (client_id) => {
    const client = await findClient(postgres.db, client_id)
    return client && (metadataOf(client, isPublic(client) ? undefined : await secretHashOf(postgres.db, client.id)) as AdapterPayload)
  },
})

/** Maps a client to the format of the OAuth library. A confidential client without a secret stays confidential, so it cannot authenticate. */
const metadataOf = (client: ClientRow, secret: string | undefined) => ({
  client_id: client.client_id,
  client_name: client.client_name,
  redirect_uris: client.redirect_uris,
  // The library requires the type `native` for custom URL schemes.
  application_type: client.redirect_uris.every((uri) => /^https?:/.test(uri)) ? 'web' : 'native',
  token_endpoint_auth_method: client.token_endpoint_auth_method,
  ...(isPublic(client) ? {} : { client_secret: secret ?? 'none' }),
  grant_types: client.grant_types,
  response_types: ['code'],
  scope: client.scopes.join(' '),
  id_token_signed_response_alg: 'RS256',
})
