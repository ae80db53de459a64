import { createHash } from 'node:crypto'
import { isContentType } from './headers.ts'
import { largestPart, mostParts, StorageRefusal, type UploadedPart } from './storage.ts'

/** Normalizes an etag for comparison. Some clients send it with quotes, some without. */
export const bare = (etag: string): string => etag.replaceAll(/^"|"$/g, '').toLowerCase()

/** Returns the etag of a multipart object as S3 calculates it: the MD5 of the parts' MD5s, and their number. */
export const etagOfParts = (parts: readonly Pick<UploadedPart, 'etag'>[]): string => {
  const marks = createHash('md5')
  for (const { etag } of parts) marks.update(Buffer.from(bare(etag), 'hex'))
  return `${marks.digest('hex')}-${parts.length}`
}

/**
 * Validates the parts that a client names to complete its upload: at least one, in ascending order, with well-formed
 * etags.
 */
export const checkParts = (parts: readonly UploadedPart[]): void => {
  if (parts.length === 0) throw new StorageRefusal('wrong_part', 'Received no parts; an upload has at least one.')
  for (const [at, { number, etag }] of parts.entries()) {
    const before = parts[at - 1]?.number ?? 0
    if (number <= before) throw new StorageRefusal('wrong_part', `Received part ${number} after part ${before}; list the parts in ascending order.`)
    if (!/^[0-9a-f]{32}$/.test(bare(etag)))
      throw new StorageRefusal('wrong_part', `The ETag of part ${number} is not valid. Send the ETag from the answer to its upload.`)
  }
}

// The checks below detect bugs of our own code, so they throw plain errors instead of `StorageRefusal`.

export const checkPart = ({ number, size }: { readonly number: number; readonly size?: number | undefined }): void => {
  if (!Number.isInteger(number) || number < 1 || number > mostParts) throw new RangeError(`parts are numbered from 1 to ${mostParts}, not ${number}`)
  if (size !== undefined && (!Number.isInteger(size) || size < 0 || size > largestPart))
    throw new RangeError(`a part has up to ${largestPart} bytes, not ${size}`)
}

export const checkLife = (expires_in: number, longest: number): void => {
  if (!Number.isInteger(expires_in) || expires_in < 1 || expires_in > longest)
    throw new RangeError(`a link is valid for 1 to ${longest} seconds, not ${expires_in}`)
}

export const checkRange = ({ start = 0, end = start }: { readonly start?: number; readonly end?: number }): void => {
  if (!Number.isInteger(start) || !Number.isInteger(end) || start < 0 || end < start)
    throw new RangeError(`a range starts at 0 or later and does not end before its start: not ${start} to ${end}`)
}

export const checkMetadata = (metadata: Readonly<Record<string, string>>): void => {
  const fields = Object.entries(metadata)
  const size = fields.reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  if (size > 2048) throw new RangeError(`metadata has at most 2048 characters, not ${size}`)
  for (const [name, value] of fields)
    if (!/^[0-9a-z-]+$/.test(name) || !/^[!-~]([ -~]*[!-~])?$/.test(value)) throw new TypeError(`metadata is plain ASCII, and ${name} is not`)
}

export const checkType = (content_type: string): void => {
  if (!isContentType(content_type)) throw new TypeError(`not a content type: ${JSON.stringify(content_type)}`)
}

export const checkLimit = (limit: number): void => {
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) throw new RangeError(`a page has 1 to 1000 entries, not ${limit}`)
}
