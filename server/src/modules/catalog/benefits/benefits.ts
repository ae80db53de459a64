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
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { holdFiles, replaceBenefitFiles } from '../files/files.sql.ts'
import { knownMeters } from '../meters/meters.sql.ts'
import { changeBenefit, detachBenefit, insertBenefit, lockBenefit, type BenefitTable } from './benefits.sql.ts'

type Create = z.output<typeof BenefitCreate>
/** A kind, with the properties that go with it. */
export type Said = { [K in Create['type']]: Pick<Extract<Create, { type: K }>, 'type' | 'properties'> }[Create['type']]

/** Kinds for which a seller decides who sees them. */
const configurable: readonly Benefit['type'][] = ['custom', 'license_keys', 'meter_credit', 'feature_flag']

/** The benefit as the wire shows it. */
export const present = ({ deleted_at, meter_id: _, ...rest }: BenefitTable): Benefit =>
  ({ ...rest, is_deleted: deleted_at !== null, visibility_configurable: configurable.includes(rest.type) }) as Benefit

const wrong = (field: string, msg: string, input?: unknown): Invalid => invalidAt(['body', 'properties', field], msg, input)

/** What is stored of the properties: everything said, what was left out said as well, and what others must vouch for vouched for. */
export const settle = async (tx: Tx, platform: Platform, organization_id: string, said: Said) => {
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
      throw new InvalidRequest(wrong('slack_integration_id', 'There is no Slack workspace connected under this id.', said.properties.slack_integration_id))
    case 'github_repository':
    case 'feature_flag':
      return said.properties
  }
}

/** Each file once, in the order given, and which of them are archived; each uploaded, to be downloaded, and the organization's own. */
const filesOf = async (tx: Tx, organization_id: string, { files, archived }: Extract<Said, { type: 'downloadables' }>['properties']) => {
  const known = new Set((await holdFiles(tx, [organization_id], 'downloadable', files)).map(({ id }) => id))
  const unknown = files.flatMap((id, at) =>
    known.has(id) ? [] : [invalidAt(['body', 'properties', 'files', at], 'There is no uploaded file to be downloaded with this id.', id)],
  )
  if (unknown.length > 0) throw new InvalidRequest(unknown)
  const once = [...new Set(files)]
  return { files: once, archived: Object.fromEntries(once.flatMap((id) => (archived[id] === undefined ? [] : [[id, archived[id]]]))) }
}

/** The server that a token stands for: sealed by us when the bot was added, and for this organization alone. */
const guildOf = ({ sealer }: Platform, organization_id: string, token: string): string => {
  try {
    return sealer.open(token, `discord:${organization_id}`).reveal()
  } catch {
    throw new InvalidRequest(wrong('guild_token', 'This is not a token that was given when the bot was added to a server of yours.'))
  }
}

const meterOf = (said: Said): string | null => (said.type === 'meter_credit' ? said.properties.meter_id : null)

/** A repository is given by a person who may give it, in their own name: a machine of the organization cannot say who that is. */
const refuseMachine = (reach: Reach, organization_id: string, type: Benefit['type']) => {
  if (type === 'github_repository' && reach.organizations.get(organization_id) === 'machine')
    throw new NotPermitted('A GitHub benefit is set up by a person: use a personal token, an app, or the settings.')
}

const refuseVisibility = (type: Benefit['type'], visibility: Benefit['visibility'] | null | undefined) => {
  if (visibility && !configurable.includes(type))
    throw new InvalidRequest({
      loc: ['body', 'visibility'],
      msg: `Who sees a benefit of the type ${type} cannot be chosen.`,
      type: 'value_error',
      input: visibility,
    })
}

export const create = async (tx: Tx, reach: Reach, platform: Platform, body: Create): Promise<BenefitTable> => {
  const organization_id = chooseOrganization(reach, body.organization_id ?? undefined)
  permit(reach, organization_id, 'products:manage')
  refuseMachine(reach, organization_id, body.type)
  refuseVisibility(body.type, body.visibility)
  const properties = await settle(tx, platform, organization_id, body)
  const benefit = await insertBenefit(tx, {
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: tx.clock.business(),
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
  await keepFiles(tx, benefit)
  await emit(tx, benefitCreated, { organization_id, resource_id: benefit.id }, present(benefit))
  return benefit
}

export const update = async (tx: Tx, reach: Reach, platform: Platform, id: string, body: z.output<typeof BenefitUpdate>): Promise<BenefitTable> => {
  // Before the benefit, as whoever deletes one of them holds them.
  if (body.type === 'downloadables') await holdFiles(tx, organizationIds(reach), 'downloadable', body.properties?.files ?? [])
  const benefit = await hold(tx, reach, id)
  const { organization_id, type } = benefit
  if (body.type !== type)
    throw new InvalidRequest({ loc: ['body', 'type'], msg: `The type of a benefit never changes: this one is ${type}.`, type: 'value_error', input: body.type })
  if (body.properties) refuseMachine(reach, organization_id, type)
  refuseVisibility(type, body.visibility)
  // The type and its own properties, as the request was parsed: only the pairing is lost on the compiler.
  const said = body.properties ? ({ type, properties: body.properties } as Said) : undefined
  const changed = await changeBenefit(tx, benefit, {
    modified_at: tx.clock.business(),
    ...(body.description ? { description: body.description } : {}),
    ...(body.visibility ? { visibility: body.visibility } : {}),
    ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    ...(said ? { properties: await settle(tx, platform, organization_id, said), meter_id: meterOf(said) } : {}),
  })
  if (said) await keepFiles(tx, changed)
  await emit(tx, benefitUpdated, { organization_id, resource_id: id }, present(changed))
  // Whoever has it gets it as it is now.
  if (said || body.metadata !== undefined) await enqueue(tx, 'entitlements.benefit_changed', { organization_id, benefit_id: id })
  return changed
}

/** Gone from the catalog and from every product, and taken from whoever has it. */
export const remove = async (tx: Tx, reach: Reach, id: string): Promise<void> => {
  const benefit = await hold(tx, reach, id)
  if (!benefit.deletable) throw new NotPermitted('This benefit belongs to the service, and cannot be deleted.')
  await detachBenefit(tx, benefit)
  await replaceBenefitFiles(tx, benefit, { files: [], archived: {} })
  const gone = await changeBenefit(tx, benefit, { deleted_at: tx.clock.business() })
  await emit(tx, benefitUpdated, { organization_id: benefit.organization_id, resource_id: id }, present(gone))
  await enqueue(tx, 'entitlements.benefit_changed', { organization_id: benefit.organization_id, benefit_id: id })
}

/** The files of a benefit, as its properties name them. */
export const keepFiles = async (tx: Tx, benefit: BenefitTable): Promise<void> => {
  if (benefit.type === 'downloadables') await replaceBenefitFiles(tx, benefit, benefit.properties as Extract<Benefit, { type: 'downloadables' }>['properties'])
}

const hold = async (tx: Tx, reach: Reach, id: string): Promise<Locked<BenefitTable>> => {
  const benefit = await lockBenefit(tx, reach, id)
  if (!benefit) throw new ResourceNotFound()
  permit(reach, benefit.organization_id, 'products:manage')
  return benefit
}
