import { createHmac } from 'node:crypto'
import { join } from 'node:path'
import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import { openDisk } from './disk.ts'
import { pathOf, type LinkKeys } from './links.ts'
import { StorageRefusal, type Bucket, type Storage } from './storage.ts'

/**
 * Opens the storage of this deployment: a folder, an S3-compatible store, or none. Deployments that share a store have
 * separate prefixes.
 */
export const openStorage = async (
  { storage, public_url, sealing_keys }: Pick<Config, 'storage' | 'public_url' | 'sealing_keys'>,
  { clock, deployment_id }: { clock: Clock; deployment_id: string },
): Promise<Storage> => {
  if (!storage) return nowhere(public_url)
  if ('folder' in storage)
    return openDisk({
      folder: join(storage.folder, deployment_id),
      url: public_url,
      keys: sealing_keys.map(({ key }) => createHmac('sha256', key).update('links to the storage').digest()) as unknown as LinkKeys,
      clock,
    })
  // Imports the S3 client only for deployments that use it, because the module is large.
  const { openS3 } = await import('./s3.ts')
  return openS3({ ...storage, root: `${deployment_id}/`, clock })
}

/** Storage for deployments without configuration. Every call throws an error that names the required settings. */
const nowhere = (public_url: URL): Storage => {
  const refuse = async (): Promise<never> => {
    throw new StorageRefusal(
      'misconfigured',
      'File storage is not configured. Set BURSAR_STORAGE_DIR for a local folder. For S3, set BURSAR_S3_BUCKET, BURSAR_S3_PUBLIC_BUCKET, BURSAR_S3_ACCESS_KEY_ID and BURSAR_S3_SECRET_ACCESS_KEY.',
    )
  }
  const bucket: Bucket = {
    beginUpload: refuse,
    presignPart: refuse,
    completeUpload: refuse,
    abortUpload: refuse,
    put: refuse,
    head: refuse,
    read: refuse,
    presignDownload: refuse,
    delete: refuse,
    list: refuse,
    listUploads: refuse,
  }
  // Public URLs are still returned, so that records with a URL can be shown. The objects cannot be loaded.
  return { private: bucket, public: { ...bucket, publicUrl: (key) => new URL(pathOf('public', key), public_url).href }, close: () => undefined }
}
