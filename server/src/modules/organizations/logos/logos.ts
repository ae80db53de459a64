import { createHash } from 'node:crypto'
import { TargetRefused } from '../../../gateways/egress/targets.ts'
import { within } from '../../../kernel/actors.ts'
import { typeOf, sizeOf } from '../../../kernel/pictures.ts'
import { seconds } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import type { LogoState } from '../brand.ts'
import { changeOrganization, findLivingOrganization, lockOrganization, type OrganizationRow } from '../organizations/organizations.sql.ts'
import { findLogo, findWithoutCopy, insertLogo, markInDocuments } from './logos.sql.ts'

/** The limits of a logo. An uploaded avatar has the same maximum size. */
const limits = { bytes: 1024 * 1024, side: 4096, timeout_ms: 10 * seconds } as const

/** The reason why a URL has no usable logo. Trying again would not help. */
class NoLogo extends Error {}

interface Fetched {
  readonly content_type: string
  readonly bytes: Buffer
}

/** Reads the logo: from our own public store, or else from its host through the egress client. */
const fetchLogo = async ({ gateways: { storage, egress } }: Deps, source: string): Promise<Buffer> => {
  const root = storage.public.publicUrl('a').slice(0, -1)
  if (source.startsWith(root)) {
    const chunks: Buffer[] = []
    for await (const chunk of await storage.public.read(decodeURIComponent(source.slice(root.length)), { start: 0, end: limits.bytes }))
      chunks.push(chunk as Buffer)
    return Buffer.concat(chunks)
  }
  const { status, bytes } = await egress.get(source, { timeout_ms: limits.timeout_ms, answer_bytes: limits.bytes + 1 })
  if (status !== 200) throw new NoLogo(`The host answered with the status ${status}.`)
  return bytes
}

/** Checks what was fetched: a picture of a known type that is not too large. The type follows from the bytes, not from the host. */
const checked = (bytes: Buffer): Fetched & { readonly width: number; readonly height: number } => {
  if (bytes.length > limits.bytes) throw new NoLogo(`The picture has more than ${limits.bytes} bytes.`)
  const content_type = typeOf(bytes)
  const size = content_type === null ? undefined : sizeOf(content_type, bytes)
  if (content_type === null || !size) throw new NoLogo('The address leads to no PNG, JPEG, GIF, WebP or SVG picture.')
  if (Math.max(size.width, size.height) > limits.side) throw new NoLogo(`The picture is larger than ${limits.side} by ${limits.side} pixels.`)
  return { content_type, bytes, ...size }
}

/**
 * Copies the logo of an organization, so that pages can show it from this deployment. Idempotent. A refused picture is
 * recorded with the reason. Throws if a retry may help.
 */
export const copyLogo = async (deps: Deps, { organization_id }: { organization_id: string }): Promise<void> => {
  const organization = await findLivingOrganization(deps.db, { id: organization_id })
  const source = organization?.avatar_url ?? null
  if (!organization || source === null) return
  let found: ReturnType<typeof checked> | undefined
  let problem = ''
  try {
    found = checked(await fetchLogo(deps, source))
  } catch (error) {
    const isFinal = error instanceof NoLogo || error instanceof TargetRefused
    if (!isFinal) {
      // The queue runs the job again. The record keeps the periodic task from adding another job for this logo.
      if (organization.logo?.source !== source) await record(deps, organization, { source, problem: 'The picture could not be fetched yet.' })
      throw error
    }
    problem = error.message
  }
  if (!found) return record(deps, organization, { source, problem })
  const { content_type, bytes, width, height } = found
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  await record(deps, organization, { source, sha256, content_type, width, height }, bytes)
}

/** Stores the copy or the reason why there is none, unless the seller has changed the logo meanwhile. */
const record = ({ transact }: Deps, { id, member_phase }: OrganizationRow, logo: LogoState, bytes?: Buffer): Promise<void> =>
  transact(async (tx) => {
    const locked = await lockOrganization(tx, within(id, 'machine', member_phase), id)
    if (locked?.avatar_url !== logo.source) return
    if (bytes && 'sha256' in logo) await insertLogo(tx, locked, { sha256: logo.sha256, created_at: tx.clock.wall(), content_type: logo.content_type, bytes })
    await changeOrganization(tx, locked, { logo })
  })

/** Enqueues the copy of logos that have none, for example of organizations that are older than the copies. */
export const copyMissingLogos = async ({ db, transact }: Deps): Promise<void> => {
  const ids = await findWithoutCopy(db, 100)
  if (ids.length > 0)
    await transact(async (tx) => {
      for (const organization_id of ids) await enqueue(tx, 'organizations.copy_logo', { organization_id })
    })
}

/** Returns the picture at a path of `logoPath`. */
export const readLogo = async (db: Db, organization_id: string, name: string): Promise<Fetched | undefined> => {
  const [, prefix] = /^([0-9a-f]{32})\.[a-z]{3,4}$/.exec(name) ?? []
  return prefix === undefined || !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(organization_id) ? undefined : findLogo(db, organization_id, prefix)
}

/** The types of logos that documents can show. */
const printed: readonly string[] = ['image/png', 'image/jpeg']

/** Different logos that the documents of an organization show. Each is kept for ever, with up to 1 MiB. */
const mostInDocuments = 50

/** Returns the checksum of the current logo for a document, and keeps its copy. Null if there is none that documents can show or keep. */
export const keepLogo = async (tx: Tx, { id, avatar_url, logo }: OrganizationRow): Promise<string | null> => {
  if (!logo || 'problem' in logo || logo.source !== avatar_url || !printed.includes(logo.content_type)) return null
  return (await markInDocuments(tx, id, logo.sha256, mostInDocuments)) ? logo.sha256 : null
}

/** Returns the bytes of a logo that `keepLogo` has kept. */
export const readKeptLogo = async (db: Db, organization_id: string, sha256: string): Promise<Buffer | null> =>
  (await findLogo(db, organization_id, sha256))?.bytes ?? null
