import { ResourceNotFound, ResourceUnavailable, type DownloadableRead } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { Secret } from '../../../kernel/secrets.ts'
import { hours, later } from '../../../platform/clock.ts'
import { referred } from '../../../platform/postgres/lists.sql.ts'
import type { BusinessTx, Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { longestDownload } from '../../../gateways/storage/storage.ts'
import { findBenefit, loadFiles, presentFileBase, type BenefitTable } from '../../catalog/index.ts'
import { permit } from '../../organizations/index.ts'
import { saveGrants, type GrantRow } from '../records/grants.sql.ts'
import { countDownload, filesOfBenefit, filesOfGrants, insertDownloadables, type Counted, type DownloadableTable } from './downloadables.sql.ts'

interface GrantWithBenefit {
  readonly grant: GrantRow
  readonly benefit: BenefitTable
}

/**
 * Gives recipients of downloadable benefits access to each file that is not archived. Recipients keep access to
 * archived files that they already have. Idempotent: adds missing files and keeps all download counts. Lists the files
 * in the properties of the grant.
 */
export const provideDownloads = async (tx: BusinessTx, given: readonly GrantWithBenefit[]): Promise<GrantWithBenefit[]> => {
  const mine = given.filter(({ benefit }) => benefit.type === 'downloadables')
  if (mine.length === 0) return [...given]
  const named = new Map<string, string[]>()
  for (const [benefit_id, ofBenefit] of Map.groupBy(mine, ({ benefit }) => benefit.id)) {
    const { organization_id } = ofBenefit[0]!.benefit
    const files = (await filesOfBenefit(tx, organization_id, benefit_id)).filter(({ is_archived }) => !is_archived)
    await insertDownloadables(
      tx,
      ofBenefit.flatMap(({ grant }) =>
        files.map(({ file_id }) => ({
          organization_id,
          id: newId(tx.clock.wall()),
          created_at: tx.clock.business(),
          grant_id: grant.id,
          benefit_id,
          file_id,
          downloads: 0,
          last_downloaded_at: null,
        })),
      ),
    )
    const ids = ofBenefit.map(({ grant }) => grant.id)
    for (const id of ids) named.set(id, [])
    for (const { grant_id, file_id } of await filesOfGrants(tx, organization_id, ids)) named.get(grant_id)!.push(file_id)
  }
  const provided = given.map((one) => {
    const files = named.get(one.grant.id)
    return files ? { ...one, grant: { ...one.grant, properties: { files } } } : one
  })
  await saveGrants(
    tx,
    provided.filter(({ grant }) => named.has(grant.id)).map(({ grant }) => grant),
  )
  return provided
}

/** Validity of a download link in the portal. The grant is checked again when the link is used. */
const life = 1 * hours
const purpose = 'download'

/**
 * Presents files, each with its own download link. The link's token is sealed, so that it cannot be forged. The token
 * contains the downloadable's id and the link's expiry.
 */
export const presentDownloadables = async (db: Db, { sealer, clock, config }: Platform, rows: readonly DownloadableTable[]): Promise<DownloadableRead[]> => {
  const files = new Map(
    (
      await loadFiles(
        db,
        referred(rows, ({ file_id }) => file_id),
      )
    ).map((file) => [file.id, file]),
  )
  const expires_at = later(clock.wall(), life)
  return rows.map(({ organization_id, id, benefit_id, file_id }) => {
    const sealed = sealer.seal(new Secret(`${organization_id} ${id} ${expires_at.getTime()}`), purpose)
    const token = Buffer.from(sealed).toString('base64url')
    const url = new URL(`/v1/customer-portal/downloadables/${token}`, config.public_url).href
    // A foreign key guarantees that the file exists.
    const file = files.get(file_id)!
    return { id, benefit_id, file: { ...presentFileBase(file), service: file.service, download: { url, headers: {}, expires_at } } }
  })
}

const read = ({ sealer }: Platform, token: string): { organization_id: string; id: string; until: number } => {
  try {
    const [organization_id = '', id = '', until] = sealer.open(Buffer.from(token, 'base64url').toString(), purpose).reveal().split(' ')
    return { organization_id, id, until: Number(until) }
  } catch {
    throw new ResourceNotFound()
  }
}

/** Redeems a download link and counts the download. Checks the grant again, so that the link stops working when the grant is revoked. */
export const redeem = async (tx: Tx, platform: Platform, token: string): Promise<{ path: string; name: string; mime_type: string }> => {
  const { organization_id, id, until } = read(platform, token)
  if (until <= tx.clock.wall().getTime()) throw new ResourceUnavailable()
  const counted = await countDownload(tx, { organization_id, id })
  if (!counted) throw new ResourceUnavailable()
  const { path, name, mime_type } = counted
  return { path, name, mime_type }
}

/** Returns a presigned URL of the object store. The URL expires soon, which limits sharing. */
export const lead = async ({ gateways }: Deps, { path, name, mime_type }: Pick<Counted, 'path' | 'name' | 'mime_type'>): Promise<string> =>
  (await gateways.storage.private.presignDownload({ key: path, name, content_type: mime_type, expires_in: longestDownload })).url

/** Returns a benefit whose files the caller may read. */
export const findWithFiles = async (db: Db, scope: TenantScope, id: string): Promise<BenefitTable> => {
  const benefit = await findBenefit(db, scope, id)
  if (!benefit) throw new ResourceNotFound()
  permit(scope, benefit.organization_id, 'products:read')
  return benefit
}
