import { StorageRefusal, StorageSilent } from '../../../gateways/storage/storage.ts'
import { later, minutes, stopwatch } from '../../../platform/clock.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import { checkLease, extendLease, releaseLease, underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Deps } from '../../handlers.ts'
import { changeFile, dropParts, holdFile, readFile, type FileRow } from './files.sql.ts'
import { bucketOf, settle, verify } from './verifying.ts'

/** Delay before the next attempt after a storage failure. */
const pause = 1 * minutes

/**
 * Performs the next step of a file. Verifies a large file, abandons an expired upload, or removes a deleted or refused
 * file from the store. The database change is always committed before anything is removed.
 */
export const tend = async (deps: Deps, lease: Lease): Promise<void> => {
  try {
    const file = await readFile(deps.db, lease)
    if (file.deleted_at !== null || file.state === 'refused') await clear(deps, lease, file)
    else if (file.state === 'verifying') await readBack(deps, lease, file)
    else await giveUp(deps, lease)
  } catch (error) {
    // The store is unavailable or refuses the request. Retries after a pause until the store works again.
    if (error instanceof StorageSilent || error instanceof StorageRefusal) await underLease(deps.transact, lease, async (tx) => later(tx.clock.wall(), pause))
    throw error
  }
}

/** Aborts all uploads of the file, then deletes its object. In the reverse order, an upload could create the object again. */
const clear = async ({ transact, gateways }: Deps, lease: Lease, { service, path, due_at }: FileRow): Promise<void> => {
  const bucket = bucketOf(gateways.storage, service)
  // Each file has its own folder, so the prefix matches no other file.
  const prefix = path.slice(0, path.lastIndexOf('/') + 1)
  for (let after: string | null | undefined; after !== null;) {
    const page = await bucket.listUploads({ prefix, limit: 100, ...(after === undefined ? {} : { after }) })
    for (const { key, upload_id } of page.uploads) await bucket.abortUpload({ key, upload_id })
    after = page.next
  }
  await bucket.delete(path)
  await underLease(transact, lease, async (tx) => {
    await dropParts(tx, lease)
    // A completion request may have set a new due time meanwhile. The sweep then removes the file from the store again.
    const after = await holdFile(tx, lease)
    return after.due_at?.getTime() === due_at?.getTime() ? null : after.due_at
  })
}

/** Verifies a file. Extends the lease while data arrives, because the largest files take hours. */
const readBack = async (deps: Deps, lease: Lease, file: FileRow): Promise<void> => {
  const { lease_ms } = sweeps['catalog.tend_files']
  let since = stopwatch()
  let lost: unknown
  const alive = () => {
    if (lost !== undefined) throw lost
    if (since() < lease_ms / 4) return
    since = stopwatch()
    deps.transact((tx) => extendLease(tx, lease, lease_ms)).catch((error: unknown) => void (lost = error))
  }
  const found = await verify(deps, file, alive)
  await deps.transact(async (tx) => {
    await checkLease(tx, lease)
    const { due_at } = await settle(tx, await holdFile(tx, lease), found)
    await releaseLease(tx, lease, due_at)
  })
}

/** Abandons an upload that was not completed in time: marks its file as deleted. The next sweep removes its data from the store. */
const giveUp = ({ transact }: Deps, lease: Lease): Promise<void> =>
  underLease(transact, lease, async (tx) => {
    const file = await holdFile(tx, lease)
    // The file was completed or deleted meanwhile. That change has already set the time of the next step.
    if (file.deleted_at !== null || file.state !== 'uploading') return file.due_at
    if (file.due_at !== null && file.due_at > tx.clock.wall()) return file.due_at
    await changeFile(tx, file, { deleted_at: tx.clock.wall() })
    return tx.clock.wall()
  })
