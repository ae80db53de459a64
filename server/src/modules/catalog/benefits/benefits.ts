import {
  benefitCreated,
  benefitUpdated,
  invalidAt,
  InvalidRequest,
  NotPermitted,
  ResourceNotFound,
  type Benefit,
  type BenefitCreate,
  type BenefitUpdate,
  type Invalid,
} from '@bursar/contract'
import type { z } from 'zod'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { holdFiles, replaceBenefitFiles } from '../files/files.sql.ts'
import { knownMeters } from '../meters/meters.sql.ts'
import { changeBenefit, detachBenefit, insertBenefit, lockBenefit, type BenefitTable } from './benefits.sql.ts'

type Create = z.output<typeof BenefitCreate>
/** The type and properties of a requested benefit. Each type has its own kind of properties. */
export type Said = { [K in Create['type']]: Pick<Extract<Create, { type: K }>, 'type' | 'properties'> }[Create['type']]

/** Benefit types whose visibility the seller can choose. */
const configurable: readonly Benefit['type'][] = ['custom', 'license_keys', 'meter_credit', 'feature_flag']

/** Presents the benefit in the API's format. */
export const presentBenefit = ({ deleted_at, meter_id: _, ...rest }: BenefitTable): Benefit =>
  ({ ...rest, is_deleted: deleted_at !== null, visibility_configurable: configurable.includes(rest.type) }) as Benefit

const wrong = (field: string, msg: string, input?: unknown): Invalid => invalidAt(['body', 'properties', field], msg, input)

/** Returns the properties to store. Omitted ones become null. Validates references to meters, files and external services. */
export const settleBenefit = async (tx: Tx, platform: Platform, organization_id: string, said: Said) => {
  switch (said.type) {
    case 'custom':
      return { note: said.properties.note ?? null }
    case 'license_keys': {
      const { prefix, expires, activations, limit_usage } = said.properties
      return { prefix: prefix ?? null, expires: expires ?? null, activations: activations ?? null, limit_usage: limit_usage ?? null }
    }
    case 'meter_credit': {
      const { meter_id } = said.properties
      if (!(await knownMeters(tx, organization_id, [meter_id])).has(meter_id))
        throw new InvalidRequest(wrong('meter_id', 'There is no meter with this id, or it is archived.', meter_id))
      return said.properties
    }
    case 'discord':
      return { ...said.properties, guild_id: guildOf(platform, organization_id, said.properties.guild_token) }
    case 'downloadables':
      return filesOf(tx, organization_id, said.properties)
    case 'slack_shared_channel':
      throw new InvalidRequest(wrong('slack_integration_id', 'No Slack workspace is connected with this id.', said.properties.slack_integration_id))
    case 'github_repository':
    case 'feature_flag':
      return said.properties
  }
}

/**
 * Validates that each file is uploaded, downloadable and owned by the organization. Returns the file ids without
 * duplicates, in the given order, and the archived flags.
 */
const filesOf = async (tx: Tx, organization_id: string, { files, archived }: Extract<Said, { type: 'downloadables' }>['properties']) => {
  const known = new Set((await holdFiles(tx, [organization_id], 'downloadable', files)).map(({ id }) => id))
  const unknown = files.flatMap((id, at) =>
    known.has(id) ? [] : [invalidAt(['body', 'properties', 'files', at], 'There is no uploaded downloadable file with this id.', id)],
  )
  if (unknown.length > 0) throw new InvalidRequest(unknown)
  const once = [...new Set(files)]
  return { files: once, archived: Object.fromEntries(once.flatMap((id) => (archived[id] === undefined ? [] : [[id, archived[id]]]))) }
}

/** Decrypts a Discord token and returns the id of its server. Bursar issued the token to this organization when the bot was added. */
const guildOf = ({ sealer }: Platform, organization_id: string, token: string): string => {
  try {
    return sealer.open(token, `discord:${organization_id}`).reveal()
  } catch {
    throw new InvalidRequest(wrong('guild_token', 'This token is not valid. Use the token that you received when the bot was added to your server.'))
  }
}

const meterOf = (said: Said): string | null => (said.type === 'meter_credit' ? said.properties.meter_id : null)

/** Rejects GitHub benefits from organization tokens. A person must set up access to a repository, and an organization token belongs to no person. */
const refuseMachine = (scope: TenantScope, organization_id: string, type: Benefit['type']) => {
  if (type === 'github_repository' && scope.organizations.get(organization_id) === 'machine')
    throw new NotPermitted('A GitHub benefit must be set up by a person. Use a personal token, an app, or the settings.')
}

const refuseVisibility = (type: Benefit['type'], visibility: Benefit['visibility'] | null | undefined) => {
  if (visibility && !configurable.includes(type))
    throw new InvalidRequest({
      loc: ['body', 'visibility'],
      msg: `The visibility of a benefit of the type ${type} cannot be set.`,
      type: 'value_error',
      input: visibility,
    })
}

export const createBenefit = async (tx: Tx, scope: TenantScope, platform: Platform, body: Create): Promise<BenefitTable> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'products:manage')
  refuseMachine(scope, organization_id, body.type)
  refuseVisibility(body.type, body.visibility)
  const properties = await settleBenefit(tx, platform, organization_id, body)
  const benefit = await insertBenefit(tx, {
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: tx.clock.wall(),
    modified_at: null,
    deleted_at: null,
    type: body.type,
    description: body.description,
    visibility: body.visibility ?? (body.type === 'feature_flag' ? 'private' : 'public'),
    selectable: true,
    deletable: true,
    properties,
    meter_id: meterOf(body),
    metadata: body.metadata ?? {},
  })
  await keepBenefitFiles(tx, benefit)
  await emit(inWallTime(tx), benefitCreated, { organization_id, resource_id: benefit.id }, presentBenefit(benefit))
  return benefit
}

export const updateBenefit = async (
  tx: Tx,
  scope: TenantScope,
  platform: Platform,
  id: string,
  body: z.output<typeof BenefitUpdate>,
): Promise<BenefitTable> => {
  // Lock the files before the benefit. The deletion of a file uses the same order.
  if (body.type === 'downloadables') await holdFiles(tx, organizationIds(scope), 'downloadable', body.properties?.files ?? [])
  const benefit = await hold(tx, scope, id)
  const { organization_id, type } = benefit
  if (body.type !== type)
    throw new InvalidRequest({ loc: ['body', 'type'], msg: `The type of a benefit cannot change. This one is ${type}.`, type: 'value_error', input: body.type })
  if (body.properties) refuseMachine(scope, organization_id, type)
  refuseVisibility(type, body.visibility)
  // The request was parsed with matching type and properties. TypeScript loses this pairing, hence the cast.
  const said = body.properties ? ({ type, properties: body.properties } as Said) : undefined
  const changed = await changeBenefit(tx, benefit, {
    modified_at: tx.clock.wall(),
    ...(body.description ? { description: body.description } : {}),
    ...(body.visibility ? { visibility: body.visibility } : {}),
    ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    ...(said ? { properties: await settleBenefit(tx, platform, organization_id, said), meter_id: meterOf(said) } : {}),
  })
  if (said) await keepBenefitFiles(tx, changed)
  await emit(inWallTime(tx), benefitUpdated, { organization_id, resource_id: id }, presentBenefit(changed))
  // A job applies the new properties to existing grants.
  if (said || body.metadata !== undefined) await enqueue(tx, 'entitlements.benefit_changed', { organization_id, benefit_id: id })
  return changed
}

/** Deletes the benefit and removes it from all products. A job revokes its grants. */
export const deleteBenefit = async (tx: Tx, scope: TenantScope, id: string): Promise<void> => {
  const benefit = await hold(tx, scope, id)
  if (!benefit.deletable) throw new NotPermitted('This benefit is managed by the service and cannot be deleted.')
  await detachBenefit(tx, benefit)
  if (benefit.type === 'downloadables') await replaceBenefitFiles(tx, benefit, { files: [], archived: {} })
  const gone = await changeBenefit(tx, benefit, { deleted_at: tx.clock.wall() })
  await emit(inWallTime(tx), benefitUpdated, { organization_id: benefit.organization_id, resource_id: id }, presentBenefit(gone))
  await enqueue(tx, 'entitlements.benefit_changed', { organization_id: benefit.organization_id, benefit_id: id })
}

/** Stores the links between a downloadables benefit and the files in its properties. */
export const keepBenefitFiles = async (tx: Tx, benefit: BenefitTable): Promise<void> => {
  if (benefit.type === 'downloadables') await replaceBenefitFiles(tx, benefit, benefit.properties as Extract<Benefit, { type: 'downloadables' }>['properties'])
}

const hold = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<BenefitTable>> => {
  const benefit = await lockBenefit(tx, scope, id)
  if (!benefit) throw new ResourceNotFound()
  permit(scope, benefit.organization_id, 'products:manage')
  return benefit
}
