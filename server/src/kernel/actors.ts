import type { AnyScope, OrganizationRole } from '@bursar/contract'

/** A machine of one organization, holding one of its access tokens. */
export interface OrganizationActor {
  readonly kind: 'organization'
  readonly organization_id: string
  readonly credential_id: string
  readonly scopes: ReadonlySet<AnyScope>
}

/** A person, present in a browser (`session`) or represented by a token of theirs (`personal`). */
export interface UserActor {
  readonly kind: 'user'
  readonly via: 'personal' | 'session'
  readonly user_id: string
  readonly email: string
  readonly is_operator: boolean
  readonly credential_id: string
  readonly credential_created_at: Date
  readonly scopes: ReadonlySet<AnyScope>
  /** The organizations the person belongs to at this moment, and the role in each. */
  readonly memberships: ReadonlyMap<string, OrganizationRole>
}

export interface Anonymous {
  readonly kind: 'anonymous'
}

export type Actor = OrganizationActor | UserActor | Anonymous

export const anonymous: Anonymous = { kind: 'anonymous' }

/**
 * The organizations within which a request may see and change anything: the first parameter of every finder, so that
 * nothing is ever found by its id alone. A machine acts with the organization's own authority, a person with a role.
 */
export interface Reach {
  readonly organizations: ReadonlyMap<string, OrganizationRole | 'machine'>
  /** The caller chose one organization for this request: it need not be named again. */
  readonly confined: boolean
}

/** What a request may reach: everything its actor belongs to, or only the organization that the request names. */
export const reachOf = (actor: Actor, narrowed?: string): Reach => {
  const all: ReadonlyMap<string, OrganizationRole | 'machine'> =
    actor.kind === 'user' ? actor.memberships : actor.kind === 'organization' ? new Map([[actor.organization_id, 'machine' as const]]) : new Map()
  if (narrowed === undefined) return { organizations: all, confined: false }
  return { organizations: new Map([...all].filter(([id]) => id === narrowed)), confined: true }
}

export const organizationIds = (reach: Reach): string[] => [...reach.organizations.keys()]
