import type { AnyScope, MemberReadiness, MemberRole, OrganizationRole } from '@bursar/contract'

/** How far an organization has come from seat-holding customers to members: see the member migration. */
export type MemberPhase = 'before' | 'phase1' | 'phase2'

/** A machine of one organization, holding one of its access tokens. */
export interface OrganizationActor {
  readonly kind: 'organization'
  readonly organization_id: string
  readonly phase: MemberPhase
  readonly credential_id: string
  readonly scopes: ReadonlySet<AnyScope>
}

/** A person, present in a browser (`session`), represented by a token of theirs (`personal`), or by an app they allowed (`oauth`). */
export interface UserActor {
  readonly kind: 'user'
  readonly via: 'personal' | 'session' | 'oauth'
  /** The app that acts, where one does. */
  readonly client_id: string | null
  /** The person gave it some of their organizations, not all. */
  readonly restricted: boolean
  readonly user_id: string
  readonly email: string
  readonly is_operator: boolean
  readonly credential_id: string
  readonly credential_created_at: Date
  readonly scopes: ReadonlySet<AnyScope>
  /** The organizations the person belongs to at this moment, and the role in each; for an app, those of them it was given. */
  readonly memberships: ReadonlyMap<string, OrganizationRole>
  readonly phases: ReadonlyMap<string, MemberPhase>
}

/** Who stands in the customer portal: one member of a customer, or the customer itself where there is no member model. */
export interface PortalActor {
  readonly kind: 'portal'
  readonly organization_id: string
  readonly phase: MemberPhase
  readonly customer_id: string
  /** Null: the customer itself. */
  readonly member_id: string | null
  readonly role: PortalRole
  readonly credential_id: string
  readonly expires_at: Date
  readonly scopes: ReadonlySet<AnyScope>
}
export type PortalRole = MemberRole | 'customer'

/** What an integration does in phase 1 that will not work after the switch to members, or will mean something else. */
export type Finding = Exclude<MemberReadiness['because'][number]['finding'], 'listens_without_members'>

export interface Anonymous {
  readonly kind: 'anonymous'
}

export type Actor = OrganizationActor | UserActor | PortalActor | Anonymous

export const anonymous: Anonymous = { kind: 'anonymous' }

/**
 * The organizations within which a request may see and change anything: the first parameter of every finder, so that
 * nothing is ever found by its id alone. A machine acts with the organization's own authority, a person with a role;
 * the portal has no authority of the organization's, and what it may do is decided by its own table.
 */
export interface Reach {
  readonly organizations: ReadonlyMap<string, OrganizationRole | 'machine' | 'portal'>
  /** The phase of each organization, read once with the credential, so that one request sees one phase. */
  readonly phases: ReadonlyMap<string, MemberPhase>
  /** The caller chose one organization for this request: it need not be named again. */
  readonly confined: boolean
  /** Takes note that the caller still counts on what the switch to members ends. Whoever asks on nobody's behalf has none. */
  readonly notice?: (organization_id: string, finding: Finding) => void
}

/** What a request may reach: everything its actor belongs to, or only the organization that the request names. */
export const reachOf = (actor: Actor, chosen?: string): Reach => {
  const all = widest(actor)
  return chosen === undefined ? all : { ...narrowed(all, chosen), confined: true }
}

const widest = (actor: Actor): Reach => {
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

/** A reach of one organization. */
export const within = (organization_id: string, as: OrganizationRole | 'machine' | 'portal', phase: MemberPhase): Reach => ({
  organizations: new Map([[organization_id, as]]),
  phases: new Map([[organization_id, phase]]),
  confined: false,
})

/** The part of a reach that is one of its organizations. */
export const narrowed = (reach: Reach, organization_id: string): Reach => ({
  ...reach,
  organizations: new Map([...reach.organizations].filter(([id]) => id === organization_id)),
})

/** The organizations within reach: of those that are wanted, where any are. */
export const organizationIds = (reach: Reach, wanted: readonly string[] = []): string[] =>
  [...reach.organizations.keys()].filter((id) => wanted.length === 0 || wanted.includes(id))

/** What can be foreseen: the switch of an organization whose members are prepared. */
const foreseen = (phase: MemberPhase): MemberPhase => (phase === 'phase1' ? 'phase2' : phase)

/** The same caller as they will be after the switch, for whoever asks to be answered as then. */
export const lookAhead = (actor: Actor): Actor => {
  if (actor.kind === 'anonymous') return actor
  if (actor.kind === 'user') return { ...actor, phases: new Map([...actor.phases].map(([id, phase]) => [id, foreseen(phase)])) }
  return { ...actor, phase: foreseen(actor.phase) }
}

/** Whether looking ahead shows anything else than what is. */
export const isForeseeable = (reach: Reach): boolean => organizationIds(reach).some((id) => reach.phases.get(id) === 'phase1')

export const phaseOf = (reach: Reach, organization_id: string): MemberPhase => {
  const phase = reach.phases.get(organization_id)
  if (phase === undefined) throw new Error('an organization within reach has a phase')
  return phase
}
