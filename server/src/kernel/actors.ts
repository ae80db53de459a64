import type { AnyScope, MemberReadiness, MemberRole, OrganizationRole } from '@bursar/contract'

/** The phase of an organization in the member migration, which turns customers that hold seats into members. */
export type MemberPhase = 'before' | 'phase1' | 'phase2'

/** A machine that acts for one organization with one of its access tokens. */
export interface OrganizationActor {
  readonly kind: 'organization'
  readonly organization_id: string
  readonly phase: MemberPhase
  readonly credential_id: string
  readonly scopes: ReadonlySet<AnyScope>
}

/** A user: in a browser (`session`), by a token of their own (`personal`), or by an app that they authorized (`oauth`). */
export interface UserActor {
  readonly kind: 'user'
  readonly via: 'personal' | 'session' | 'oauth'
  /** The OAuth client that acts for the user. Null if there is none. */
  readonly client_id: string | null
  /** True if the user authorized the app for some of their organizations only. */
  readonly restricted: boolean
  readonly user_id: string
  readonly email: string
  readonly is_operator: boolean
  readonly credential_id: string
  readonly credential_created_at: Date
  readonly scopes: ReadonlySet<AnyScope>
  /** The user's current organizations with the role in each. For an OAuth app: only the organizations that it was authorized for. */
  readonly memberships: ReadonlyMap<string, OrganizationRole>
  readonly phases: ReadonlyMap<string, MemberPhase>
}

/** The caller in the customer portal: one member of a customer, or the customer itself if the organization has no members. */
export interface PortalActor {
  readonly kind: 'portal'
  readonly organization_id: string
  readonly phase: MemberPhase
  readonly customer_id: string
  /** The member who signed in. Null if the customer itself signed in. */
  readonly member_id: string | null
  readonly role: PortalRole
  readonly credential_id: string
  readonly expires_at: Date
  readonly scopes: ReadonlySet<AnyScope>
}
export type PortalRole = MemberRole | 'customer'

/** A use of the API in phase 1 that will fail or behave differently after the switch to members. */
export type Finding = Exclude<MemberReadiness['because'][number]['finding'], 'listens_without_members'>

export interface Anonymous {
  readonly kind: 'anonymous'
}

/** The actor of a command on the deployment's own machine. The command acts for no user and without a token. */
export interface Cli {
  readonly kind: 'cli'
  /** The organization whose audit log records the command if the changed rows belong to no organization. */
  readonly organization_id: string | null
}
export const cli = (organization_id: string | null): Cli => ({ kind: 'cli', organization_id })

export type Actor = OrganizationActor | UserActor | PortalActor | Anonymous

export const anonymous: Anonymous = { kind: 'anonymous' }

/**
 * The tenant scope: the organizations in which a request may read and change data. Every finder takes the scope as its
 * first parameter, so that no record is found by its id alone. A machine acts with the organization's own authority, a
 * user with a role. A portal user has no authority of the organization. A separate table defines the rights of portal
 * roles.
 */
export interface TenantScope {
  readonly organizations: ReadonlyMap<string, OrganizationRole | 'machine' | 'portal'>
  /** The phase of each organization, read once with the credential, so that one request sees one phase. */
  readonly phases: ReadonlyMap<string, MemberPhase>
  /** True if the request named one organization in a header, so that its body and query need not name it. */
  readonly confined: boolean
  /**
   * Records that the caller depends on behaviour that ends with the switch to members. Absent if the caller's use of
   * the API is not recorded.
   */
  readonly notice?: (organization_id: string, finding: Finding) => void
}

/** Returns the tenant scope of a request: all organizations of the actor, or only the one that the request names. */
export const scopeOf = (actor: Actor, chosen?: string): TenantScope => {
  const all = widest(actor)
  return chosen === undefined ? all : { ...narrowed(all, chosen), confined: true }
}

const widest = (actor: Actor): TenantScope => {
  switch (actor.kind) {
    case 'user':
      return { organizations: actor.memberships, phases: actor.phases, confined: false }
    case 'organization':
      return within(actor.organization_id, 'machine', actor.phase)
    case 'portal':
      return within(actor.organization_id, 'portal', actor.phase)
    case 'anonymous':
      return { organizations: new Map(), phases: new Map(), confined: false }
  }
}

/** Returns the scope of one organization. */
export const within = (organization_id: string, as: OrganizationRole | 'machine' | 'portal', phase: MemberPhase): TenantScope => ({
  organizations: new Map([[organization_id, as]]),
  phases: new Map([[organization_id, phase]]),
  confined: false,
})

/** Reduces a scope to one of its organizations. */
export const narrowed = (scope: TenantScope, organization_id: string): TenantScope => ({
  ...scope,
  organizations: new Map([...scope.organizations].filter(([id]) => id === organization_id)),
})

/** Lists the organizations in scope, limited to `wanted` if it is not empty. */
export const organizationIds = (scope: TenantScope, wanted: readonly string[] = []): string[] =>
  [...scope.organizations.keys()].filter((id) => wanted.length === 0 || wanted.includes(id))

/** Returns the phase to preview: phase 2 for an organization in phase 1, else the current phase. Only phase 1 has prepared members. */
const foreseen = (phase: MemberPhase): MemberPhase => (phase === 'phase1' ? 'phase2' : phase)

/** Returns the actor as it will be after the switch to members, for requests that preview that phase. */
export const lookAhead = (actor: Actor): Actor => {
  if (actor.kind === 'anonymous') return actor
  if (actor.kind === 'user') return { ...actor, phases: new Map([...actor.phases].map(([id, phase]) => [id, foreseen(phase)])) }
  return { ...actor, phase: foreseen(actor.phase) }
}

/** True if an organization in scope is in phase 1, so that a preview would differ from the current phase. */
export const isForeseeable = (scope: TenantScope): boolean => organizationIds(scope).some((id) => scope.phases.get(id) === 'phase1')

export const phaseOf = (scope: TenantScope, organization_id: string): MemberPhase => {
  const phase = scope.phases.get(organization_id)
  if (phase === undefined) throw new Error('every organization in scope has a member phase')
  return phase
}
