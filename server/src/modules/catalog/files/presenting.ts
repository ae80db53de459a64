import type { FileRead, fileFields } from '@bursar/contract'
import type { z } from 'zod'
import type { FileRow } from './files.sql.ts'

type Fields = { [K in keyof typeof fileFields]: z.output<(typeof fileFields)[K]> }

/** Returns the fields common to all file types. Announced values are always set. Values from the store are null until the object exists. */
export const presentFileBase = (file: FileRow): Fields => ({
  id: file.id,
  organization_id: file.organization_id,
  name: file.name,
  path: file.path,
  mime_type: file.mime_type,
  size: file.size,
  storage_version: file.storage_version,
  checksum_etag: file.checksum_etag,
  checksum_sha256_base64: file.checksum_sha256_base64,
  checksum_sha256_hex: file.checksum_sha256_hex,
  last_modified_at: file.last_modified_at,
  version: file.version,
  is_uploaded: file.state === 'ready',
  size_readable: readable(file.size),
})

/** Presents the file in the API's format. */
export const presentFile = (file: FileRow): FileRead => {
  const { service, public_url, created_at } = file
  const kept = { ...presentFileBase(file), created_at }
  // Files are not scanned for malware, so the flag is always null.
  if (service === 'downloadable') return { ...kept, service, flagged_malicious_at: null }
  return { ...kept, service, public_url: public_url! }
}

export const presentMedia = (file: FileRow) => presentFile(file) as Extract<FileRead, { service: 'product_media' }>
export const presentDownloadable = (file: FileRow) => presentFile(file) as Extract<FileRead, { service: 'downloadable' }>

const units = ['KB', 'MB', 'GB', 'TB'] as const

const readable = (size: number): string => {
  if (size < 1024) return `${size} B`
  let [rest, at] = [size / 1024, 0]
  while (rest >= 1024 && at < units.length - 1) [rest, at] = [rest / 1024, at + 1]
  return `${rest.toFixed(1)} ${units[at]}`
}
