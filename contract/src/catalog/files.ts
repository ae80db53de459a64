import { z } from 'zod'
import {
  failure,
  filter,
  merchant,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  sorting,
  text,
  timestamp,
  uuid,
} from '../kit/index.ts'

export const FileServiceTypes = named('FileServiceTypes', z.enum(['downloadable', 'product_media', 'organization_avatar', 'support_case_attachment']))
export type FileServiceTypes = z.output<typeof FileServiceTypes>

const mebibyte = 1024 * 1024
const images = ['image/jpeg', 'image/png', 'image/gif', 'image/webp', 'image/svg+xml'] as const

/** The limits of S3-compatible object stores. They apply to every storage backend. */
export const uploadLimits = {
  parts: 10_000,
  /** Minimum size of every part except the last. */
  smallest_part: 5 * mebibyte,
  largest_part: 5 * 1024 * mebibyte,
  name_bytes: 255,
} as const

/** The maximum size and the allowed MIME types of each kind of file. Null allows every type. */
export const fileLimits = {
  downloadable: { size: 5 * 1024 * 1024 * mebibyte, mime_types: null },
  product_media: { size: 10 * mebibyte, mime_types: images },
  organization_avatar: { size: mebibyte, mime_types: images },
  support_case_attachment: {
    size: 250 * mebibyte,
    mime_types: [
      'image/jpeg',
      'image/png',
      'image/gif',
      'image/webp',
      'video/mp4',
      'video/quicktime',
      'video/webm',
      'application/pdf',
      'text/csv',
      'text/plain',
      'application/msword',
      'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
      'application/vnd.ms-excel',
      'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
    ],
  },
} as const satisfies Record<FileServiceTypes, { readonly size: number; readonly mime_types: readonly string[] | null }>

/** The fields that every kind of file has. */
export const fileFields = {
  id: uuid(),
  organization_id: uuid(),
  name: z.string(),
  path: z.string().describe('The path in the storage.'),
  mime_type: z.string(),
  size: z.int().describe('In bytes.'),
  storage_version: z.string().nullable(),
  checksum_etag: z.string().nullable(),
  checksum_sha256_base64: z.string().nullable(),
  checksum_sha256_hex: z.string().nullable(),
  last_modified_at: timestamp().nullable().describe('When the storage received the file; null before.'),
  version: z.string().nullable().describe('Your own name for this version of the file.'),
  is_uploaded: z.boolean().describe('True if the upload is complete and matches the announcement.'),
  size_readable: z.string().describe('The size in a readable form, such as 1.5 MB.'),
}

const kept = { ...fileFields, created_at: timestamp() }
const shownToAll = { public_url: z.string().describe('The public address of the file.') }

export const DownloadableFileRead = resource('DownloadableFileRead', {
  ...kept,
  service: z.literal('downloadable'),
  flagged_malicious_at: timestamp().nullable().describe('Since when the file is blocked as malicious.'),
})
export const ProductMediaFileRead = resource('ProductMediaFileRead', { ...kept, service: z.literal('product_media'), ...shownToAll })
export const OrganizationAvatarFileRead = resource('OrganizationAvatarFileRead', { ...kept, service: z.literal('organization_avatar'), ...shownToAll })
export const SupportCaseAttachmentFileRead = resource('SupportCaseAttachmentFileRead', { ...kept, service: z.literal('support_case_attachment') })

/** A file that an organization stores here: to sell, to show, or to attach to a support case. */
export const FileRead = named(
  'FileRead',
  z.discriminatedUnion('service', [DownloadableFileRead, ProductMediaFileRead, OrganizationAvatarFileRead, SupportCaseAttachmentFileRead]),
)
export type FileRead = z.output<typeof FileRead>

export const BenefitDownloadableFile = resource('BenefitDownloadableFile', {
  ...DownloadableFileRead.shape,
  downloaders: z.int().describe('How many holders of the benefit have downloaded the file.'),
  downloads: z.int().describe('How often the file was downloaded.'),
})

const sha256 = () => z.string().regex(/^[A-Za-z0-9+/]{43}=$/, 'Write the 32 bytes of a SHA-256 in base64: 44 characters, the last of them =.')

/** A file name as one path segment. It is used in object keys, in local paths and in the download header. */
const fileName = () =>
  text(1, uploadLimits.name_bytes).superRefine((name, ctx) => {
    const refuse = (message: string) => ctx.addIssue({ code: 'custom', message, input: name })
    const bytes = new TextEncoder().encode(name).length
    if (bytes > uploadLimits.name_bytes) refuse(`Received ${bytes} bytes of UTF-8; a name has at most ${uploadLimits.name_bytes}.`)
    if (/[/\\]/.test(name)) refuse('Received a path; give only the name of the file, without / and \\.')
    if (name === '.' || name === '..') refuse(`Received ${name}, which names a folder; give the name of a file.`)
    if (/\p{Bidi_Control}/u.test(name)) refuse('Received a character that changes the writing direction, which can hide the file extension; leave it out.')
  })

const version = () =>
  text(0, 100)
    .transform((value) => (value === '' ? null : value))
    .nullish()

const anyType = () =>
  z
    .string()
    .max(255)
    .regex(
      /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}(; ?[\w.+-]+=[\w.+-]+)*$/,
      'Give a media type such as application/zip; if it is unknown, application/octet-stream.',
    )

export const S3FileCreatePart = resource('S3FileCreatePart', {
  number: z.int().min(1).max(uploadLimits.parts).describe('1, 2, 3 and so on.'),
  chunk_start: z.int().min(0).describe('The first byte of the part, counted from 0.'),
  chunk_end: z.int().min(1).describe('The first byte after the part.'),
  checksum_sha256_base64: sha256().nullish().describe('The SHA-256 of this part. The storage rejects other bytes.'),
})

const S3FileCreateMultipart = resource('S3FileCreateMultipart', { parts: z.array(S3FileCreatePart).min(1).max(uploadLimits.parts) })

type Part = z.output<typeof S3FileCreatePart>

/** Returns the first error in a list of parts. Parts must cover the whole file, once and in order. */
const flawOf = (parts: readonly Part[], size: number): { at: (string | number)[]; message: string; input: number } | undefined => {
  let reached = 0
  for (const [index, { number, chunk_start, chunk_end }] of parts.entries()) {
    const length = chunk_end - chunk_start
    const flaw = (field: string, message: string, input: number) => ({ at: [index, field], message, input })
    if (number !== index + 1) return flaw('number', `Received ${number}; parts are numbered from 1 without a gap, so this one is ${index + 1}.`, number)
    if (chunk_start !== reached)
      return flaw(
        'chunk_start',
        `Received ${chunk_start}; ${index === 0 ? 'the first part begins at 0' : `this part begins at ${reached}, the end of the previous part`}.`,
        chunk_start,
      )
    if (length < 1) return flaw('chunk_end', `Received ${chunk_end}; a part that begins at ${chunk_start} ends after it.`, chunk_end)
    if (length > uploadLimits.largest_part)
      return flaw('chunk_end', `Received a part of ${length} bytes; a part has at most ${uploadLimits.largest_part}.`, chunk_end)
    if (index < parts.length - 1 && length < uploadLimits.smallest_part)
      return flaw('chunk_end', `Received a part of ${length} bytes; every part but the last has at least ${uploadLimits.smallest_part}.`, chunk_end)
    reached = chunk_end
  }
  if (reached === size || parts.length === 0) return undefined
  return { at: [parts.length - 1, 'chunk_end'], message: `Received parts that end at ${reached}; the size of the file is ${size}.`, input: reached }
}

const announcing = <S extends FileServiceTypes, M extends z.ZodType<string>>(name: string, service: S, mimeType: M) =>
  named(
    name,
    z
      .object({
        organization_id: uuid().nullish(),
        name: fileName(),
        mime_type: mimeType,
        size: z.int().min(1).max(fileLimits[service].size).describe('In bytes.'),
        checksum_sha256_base64: sha256().nullish().describe('The SHA-256 of the whole file. The uploaded bytes are checked against it.'),
        upload: S3FileCreateMultipart.describe('The parts in which the file will be uploaded.'),
        service: z.literal(service),
        version: version(),
      })
      .superRefine(({ size, upload }, ctx) => {
        const flaw = flawOf(upload.parts, size)
        if (flaw) ctx.addIssue({ code: 'custom', path: ['upload', 'parts', ...flaw.at], message: flaw.message, input: flaw.input })
      }),
  )

/** A file to be uploaded. */
export const FileCreate = named(
  'FileCreate',
  z.discriminatedUnion('service', [
    announcing('DownloadableFileCreate', 'downloadable', anyType()),
    announcing('ProductMediaFileCreate', 'product_media', z.enum(fileLimits.product_media.mime_types)),
    announcing('OrganizationAvatarFileCreate', 'organization_avatar', z.enum(fileLimits.organization_avatar.mime_types)),
    announcing('SupportCaseAttachmentFileCreate', 'support_case_attachment', z.enum(fileLimits.support_case_attachment.mime_types)),
  ]),
)
export type FileCreate = z.output<typeof FileCreate>

export const S3FileUploadPart = resource('S3FileUploadPart', {
  number: z.int(),
  chunk_start: z.int(),
  chunk_end: z.int(),
  checksum_sha256_base64: z.string().nullable(),
  url: z.string().describe('PUT the bytes of this part to this address.'),
  expires_at: timestamp().describe('When the address expires.'),
  headers: z.record(z.string(), z.string()).describe('Headers to send unchanged with the upload.'),
})

/** The file before its upload is complete, and the upload address of each part. */
export const FileUpload = resource('FileUpload', {
  ...fileFields,
  service: FileServiceTypes,
  upload: resource('S3FileUploadMultipart', {
    id: z.string().describe('The id of the upload. Send it again to complete the upload.'),
    path: z.string(),
    parts: z.array(S3FileUploadPart),
  }),
})
export type FileUpload = z.output<typeof FileUpload>

/** The completed parts of an upload. They may be listed in any order, because they can finish in any order. */
const completedParts = () =>
  z
    .array(
      resource('S3FileUploadCompletedPart', {
        number: z.int().min(1).max(uploadLimits.parts),
        checksum_etag: z.string().min(1).max(255).describe('The ETag from the answer to the upload of the part.'),
        checksum_sha256_base64: sha256().nullish(),
      }),
    )
    .min(1)
    .max(uploadLimits.parts)
    .superRefine((parts, ctx) => {
      const seen = new Set<number>()
      for (const [index, { number }] of parts.entries()) {
        const message = seen.has(number)
          ? `Received part ${number} twice; name each part once.`
          : number > parts.length
            ? `Received part ${number} among ${parts.length}; parts are numbered from 1 without a gap.`
            : undefined
        if (message !== undefined) return ctx.addIssue({ code: 'custom', path: [index, 'number'], message, input: number })
        seen.add(number)
      }
    })

export const FileUploadCompleted = resource('FileUploadCompleted', {
  id: z.string().min(1).max(1024).describe('The id of the upload from the answer to the announcement.'),
  path: z.string().min(1).max(1024).describe('The path from the answer to the announcement.'),
  parts: completedParts(),
})

const blankIsAbsent = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (typeof value === 'string' && value.trim() === '' ? undefined : value), schema)

export const FilePatch = resource('FilePatch', {
  name: blankIsAbsent(fileName().nullish()),
  version: blankIsAbsent(version()),
})

const read = merchant(['files:read', 'files:write'])
const write = merchant('files:write')
const byId = z.object({ id: uuid() })
/** Body size limit. A request with 10,000 parts and their checksums fits into it. */
const bodyLimit = 4 * mebibyte

export const listFiles = operation({
  id: 'files:list',
  method: 'GET',
  path: '/v1/files/',
  summary: 'List files',
  description: 'Files whose upload is complete. Attachments of support cases are not listed.',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    ids: filter(uuid()),
    service: filter(FileServiceTypes),
    ...pageQuery,
    sorting: sorting('FileSortProperty', ['created_at', 'name', 'size'], ['-created_at']),
  }),
  returns: page('FilePage', FileRead),
  fails: [],
})

export const StorageQuotaExceeded = failure(
  'StorageQuotaExceeded',
  403,
  'The files of the organization would exceed its storage quota. Delete files, or ask the operator of this deployment for a larger quota.',
)

export const createFile = operation({
  id: 'files:create',
  method: 'POST',
  path: '/v1/files/',
  summary: 'Announce a file',
  description:
    'Returns an address for each part. PUT the parts there, keep the ETag of each, then complete the upload. The operator of the deployment limits the size of a file and of all files of an organization. Announced files count towards the quota, and deleted files count until the store has removed them.',
  access: write,
  costs: 'storage',
  body: FileCreate,
  returns: FileUpload,
  status: 201,
  reveals: true,
  bodyLimit,
  fails: [NotPermitted, StorageQuotaExceeded],
})

export const completeFile = operation({
  id: 'files:uploaded',
  method: 'POST',
  path: '/v1/files/{id}/uploaded',
  summary: 'Complete an upload',
  description:
    'Checks size, type and SHA-256 of the uploaded file against the announcement. For a large file this takes time, and `is_uploaded` is false meanwhile. Send the same request again to get the result.',
  access: write,
  costs: ['jobs', 'storage'],
  params: byId,
  body: FileUploadCompleted,
  returns: FileRead,
  bodyLimit,
  fails: [NotPermitted, ResourceNotFound],
})

export const updateFile = operation({
  id: 'files:update',
  method: 'PATCH',
  path: '/v1/files/{id}',
  summary: 'Update a file',
  description: 'Changes the name or the version. Fields that are absent, null or blank stay unchanged.',
  access: write,
  costs: 'none',
  params: byId,
  body: FilePatch,
  returns: FileRead,
  fails: [NotPermitted, ResourceNotFound],
})

export const deleteFile = operation({
  id: 'files:delete',
  method: 'DELETE',
  path: '/v1/files/{id}',
  summary: 'Delete a file',
  description: 'The file is removed from every benefit and product, and can no longer be downloaded.',
  access: write,
  costs: 'jobs',
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})

export const listFilesOfBenefit = operation({
  id: 'benefits:files',
  method: 'GET',
  path: '/v1/benefits/{id}/files',
  summary: 'List the files of a benefit',
  description: 'In the order of the benefit, including archived files, with download counts. Empty for benefits of other types.',
  access: merchant(['benefits:read', 'benefits:write']),
  costs: 'none',
  params: byId,
  query: z.object(pageQuery),
  returns: page('BenefitDownloadableFilePage', BenefitDownloadableFile),
  fails: [ResourceNotFound],
})
