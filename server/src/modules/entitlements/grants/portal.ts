import { invalidAt, InvalidRequest, ResourceNotFound, type Benefit, type CustomerBenefitGrant, type CustomerBenefitGrantUpdate } from '@bursar/contract'
import { within, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { presentBenefit } from '../../catalog/index.ts'
import { clockOf, presentOwn } from '../../customers/index.ts'
import { findOrganization, holdPhase, presentSeller } from '../../organizations/index.ts'
import { accountMissing } from './giving.ts'
import { findOwnGrant, lockOwnGrant, saveGrants, type GrantRow } from './grants.sql.ts'
import { commonOf, loadGrants } from './presenting.ts'

/** Grants as those who have them see them. */
export const showOwn = async (db: Db, reach: Reach, actor: PortalActor, rows: readonly GrantRow[]): Promise<CustomerBenefitGrant[]> => {
  const { id, created_at, modified_at, name, slug, avatar_url, proration_behavior, allow_customer_updates } = presentSeller(
    (await findOrganization(db, reach, actor.organization_id))!,
  )
  const organization = { id, created_at, modified_at, name, slug, avatar_url, proration_behavior, allow_customer_updates }
  return (await loadGrants(db, reach, rows)).map((loaded) => {
    const { metadata: _, visibility: _visibility, visibility_configurable: _configurable, ...benefit } = presentBenefit(loaded.benefit)
    const common = commonOf(loaded)
    // The kind of the benefit decides what the properties are: only the pairing is lost on the compiler.
    return {
      ...common,
      customer: presentOwn(loaded.customer, actor.role),
      // What the seller notes is for the seller.
      benefit: { ...benefit, metadata: {}, organization, properties: shownOf(benefit, common.is_granted) },
    } as CustomerBenefitGrant
  })
}

/** What a holder sees of a benefit: a note once it is theirs, and never what only its seller needs. */
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

export const findOwn = async (db: Db, reach: Reach, actor: PortalActor, id: string): Promise<GrantRow> => {
  const grant = await findOwnGrant(db, reach, actor, id)
  if (!grant) throw new ResourceNotFound()
  return grant
}

/** Its recipient says who they are outside: who was let in before is shown out, and this account is let in. */
export const updateOwn = async (wall: Tx, actor: PortalActor, id: string, body: CustomerBenefitGrantUpdate): Promise<{ grant: GrantRow; reach: Reach }> => {
  const { organization_id } = actor
  const reach = within(organization_id, 'portal', await holdPhase(wall, organization_id))
  const grant = await lockOwnGrant(wall, reach, actor, id)
  if (!grant) throw new ResourceNotFound()
  const [loaded] = await loadGrants(wall, reach, [grant])
  const { type } = loaded!.benefit
  if (body.benefit_type !== type) throw new InvalidRequest(invalidAt(['body', 'benefit_type'], `This is a benefit of the type ${type}.`, body.benefit_type))
  const said = 'properties' in body ? body.properties : undefined
  if (!said || Object.entries(said).every(([name, value]) => (grant.properties[name] ?? null) === value)) return { grant, reach }
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
  return { grant: changed, reach }
}
