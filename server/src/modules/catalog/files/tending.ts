import { StorageRefusal, StorageSilent } from '../../../gateways/storage/storage.ts'
import { later, minutes, stopwatch } from '../../../platform/clock.ts'
import { sweeps } from '../../../platform/jobs/catalogue.ts'
import { checkLease, extendLease, releaseLease, underLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Means } from '../../handlers.ts'
import { changeFile, dropParts, holdFile, readFile, type FileRow } from './files.sql.ts'
import { bucketOf, settle, verify } from './verifying.ts'

/** How long a store that does not answer is left alone. */
const pause = 1 * minutes

/**
 * Whatever is next for a file: a large one is read back, one whose upload was given up is let go, and of one that is
 * deleted or refused nothing stays in the store. What the database says is committed before anything is removed.
 */
export const tend = async (means: Means, lease: Lease): Promise<void> => {
  try {
    const file = await readFile(means.db, lease)
    if (file.deleted_at !== null || file.state === 'refused') await clear(means, lease, file)
    else if (file.state === 'verifying') await readBack(means, lease, file)
    else await giveUp(means, lease)
  } catch (error) {
    // The store's trouble passes, or whoever runs it mends it: until then the file waits.
    if (error instanceof StorageSilent || error instanceof StorageRefusal) await underLease(means.transact, lease, async (tx) => later(tx.clock.wall(), pause))
    throw error
  }
}

/** Ends every upload under its path, and removes what came of one: in this order, so that nothing appears in between. */
const clear = async ({ transact, gateways }: Means, lease: Lease, { service, path, due_at }: FileRow): Promise<void> => {
  const bucket = bucketOf(gateways.storage, service)
  // Its folder is its own: nothing else begins so.
  const prefix = path.slice(0, path.lastIndexOf('/') + 1)
  for (let after: string | null | undefined; after !== null;) {
    const page = await bucket.listUploads({ prefix, limit: 100, ...(after === undefined ? {} : { after }) })
    for (const { key, upload_id } of page.uploads) await bucket.abortUpload({ key, upload_id })
    after = page.next
  }
  await bucket.delete(path)
  await underLease(transact, lease, async (tx) => {
    await dropParts(tx, lease)
    // Whoever completed it meanwhile asks for it to be cleared once more.
    const after = await holdFile(tx, lease)
    return after.due_at?.getTime() === due_at?.getTime() ? null : after.due_at
  })
}

/** As long as bytes arrive, the lease goes on: the largest file takes hours. */
const readBack = async (means: Means, lease: Lease, file: FileRow): Promise<void> => {
  const { lease_ms } = sweeps['catalog.tend_files']
  let since = stopwatch()
  let lost: unknown
  const alive = () => {
    if (lost !== undefined) throw lost
    if (since() < lease_ms / 4) return
    since = stopwatch()
    means.transact((tx) => extendLease(tx, lease, lease_ms)).catch((error: unknown) => void (lost = error))
  }
  const found = await verify(means, file, alive)
  await means.transact(async (tx) => {
    await checkLease(tx, lease)
    const { due_at } = await settle(tx, await holdFile(tx, lease), found)
    await releaseLease(tx, lease, due_at)
  })
}

/** Nobody completed it in time. From here on it is as good as deleted, and cleared next. */
const giveUp = ({ transact }: Means, lease: Lease): Promise<void> =>
  underLease(transact, lease, async (tx) => {
    const file = await holdFile(tx, lease)
    // Completed or deleted at the last moment: then that says what is next.
    if (file.deleted_at !== null || file.state !== 'uploading') return file.due_at
    if (file.due_at !== null && file.due_at > tx.clock.wall()) return file.due_at
    await changeFile(tx, file, { deleted_at: tx.clock.business() })
    return tx.clock.wall()
  })
