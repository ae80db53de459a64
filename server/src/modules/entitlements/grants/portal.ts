import { invalidAt, InvalidRequest, ResourceNotFound, type Benefit, type CustomerBenefitGrant, type CustomerBenefitGrantUpdate } from '@bursar/contract'
import { within, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { presentBenefit } from '../../catalog/index.ts'
import { clockOf, presentOwn } from '../../customers/index.ts'
import { findOrganization, holdPhase, presentSeller } from '../../organizations/index.ts'
import { accountMissing } from './giving.ts'
import { findOwnGrant, loadGrants, lockOwnGrant, type LoadedGrant } from '../records/grant-lists.sql.ts'
import { saveGrants } from '../records/grants.sql.ts'
import { commonOf } from './presenting.ts'

/** Presents grants to their recipients in the portal. */
export const showOwn = async (db: Db, scope: TenantScope, actor: PortalActor, grants: readonly LoadedGrant[]): Promise<CustomerBenefitGrant[]> => {
  const { id, created_at, modified_at, name, slug, avatar_url, proration_behavior, allow_customer_updates } = presentSeller(
    (await findOrganization(db, scope, actor.organization_id))!,
  )
  const organization = { id, created_at, modified_at, name, slug, avatar_url, proration_behavior, allow_customer_updates }
  return grants.map((loaded) => {
    const { metadata: _, visibility: _visibility, visibility_configurable: _configurable, ...benefit } = presentBenefit(loaded.benefit)
    const common = commonOf(loaded)
    // The benefit's type determines the type of its properties. TypeScript loses this pairing, hence the cast.
    return {
      ...common,
      customer: presentOwn(loaded.customer, actor.role),
      // Metadata is for the seller only.
      benefit: { ...benefit, metadata: {}, organization, properties: shownOf(benefit, common.is_granted) },
    } as CustomerBenefitGrant
  })
}

/**
 * Returns the benefit properties that a recipient may see. A note is shown only while the benefit is granted.
 * Properties that only the seller needs are never shown.
 */
const shownOf = (benefit: Pick<Benefit, 'type' | 'properties'>, is_granted: boolean): object => {
  const { type, properties } = benefit as Benefit
  switch (type) {
    case 'custom':
      return { note: is_granted ? properties.note : null }
    case 'discord':
      return { guild_id: properties.guild_id }
    case 'github_repository':
      return { repository_owner: properties.repository_owner, repository_name: properties.repository_name }
    case 'downloadables':
      return { active_files: properties.files.filter((file) => !properties.archived[file]) }
    case 'license_keys':
    case 'meter_credit':
      return properties
    case 'feature_flag':
    case 'slack_shared_channel':
      return {}
  }
}

export const findOwn = async (db: Db, scope: TenantScope, actor: PortalActor, id: string): Promise<LoadedGrant> => {
  const grant = await findOwnGrant(db, scope, actor, id)
  if (!grant) throw new ResourceNotFound()
  return grant
}

/** Sets the recipient's external account. A sweep then removes the previous account and admits this one. */
export const updateOwn = async (
  wall: Tx,
  actor: PortalActor,
  id: string,
  body: CustomerBenefitGrantUpdate,
): Promise<{ grant: LoadedGrant; scope: TenantScope }> => {
  const { organization_id } = actor
  const scope = within(organization_id, 'portal', await holdPhase(wall, organization_id))
  const grant = await lockOwnGrant(wall, scope, actor, id)
  if (!grant) throw new ResourceNotFound()
  const loaded = (await loadGrants(wall, scope, [grant]))[0]!
  const { type } = loaded.benefit
  if (body.benefit_type !== type) throw new InvalidRequest(invalidAt(['body', 'benefit_type'], `This benefit has the type ${type}.`, body.benefit_type))
  const said = 'properties' in body ? body.properties : undefined
  if (!said || Object.entries(said).every(([name, value]) => (grant.properties[name] ?? null) === value)) return { grant: loaded, scope }
  const tx = await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id: grant.buyer_customer_id }))
  const properties = { ...grant.properties, ...said }
  const known = !('account_id' in said) || said.account_id !== null
  const now = tx.clock.business()
  const changed = {
    ...grant,
    properties,
    modified_at: now,
    attempts: 0,
    error: known ? null : accountMissing(now),
    due_at: known || grant.place !== null ? tx.clock.wall() : null,
  }
  await saveGrants(tx, [changed])
  return { grant: { ...loaded, grant: changed }, scope }
}
