import { createHmac } from 'node:crypto'
import { join } from 'node:path'
import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import { openDisk } from './disk.ts'
import { pathOf, type LinkKeys } from './links.ts'
import { StorageRefusal, type Bucket, type Storage } from './storage.ts'

/** The storage of this deployment: a folder, a store that speaks S3, or none. What one deployment keeps, another that shares the place never meets. */
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
  // Large, and read only where it is needed.
  const { openS3 } = await import('./s3.ts')
  return openS3({ ...storage, root: `${deployment_id}/`, clock })
}

/** Where nothing is configured, nothing is kept, and whoever tries is told what to set. */
const nowhere = (public_url: URL): Storage => {
  const refuse = async (): Promise<never> => {
    throw new StorageRefusal(
      'misconfigured',
      'No storage for files is set up: set BURSAR_STORAGE_DIR (a folder), or BURSAR_S3_BUCKET, BURSAR_S3_PUBLIC_BUCKET, BURSAR_S3_ACCESS_KEY_ID and BURSAR_S3_SECRET_ACCESS_KEY (a store).',
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
  // What speaks of an object can still be shown, though the object cannot.
  return { private: bucket, public: { ...bucket, publicUrl: (key) => new URL(pathOf('public', key), public_url).href }, close: () => undefined }
}
