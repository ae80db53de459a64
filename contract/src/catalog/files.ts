import { z } from 'zod'
import { filter, merchant, named, NotPermitted, operation, page, pageQuery, resource, ResourceNotFound, sorting, text, timestamp, uuid } from '../kit/index.ts'

export const FileServiceTypes = named('FileServiceTypes', z.enum(['downloadable', 'product_media', 'organization_avatar', 'support_case_attachment']))
export type FileServiceTypes = z.output<typeof FileServiceTypes>

const mebibyte = 1024 * 1024
const images = ['image/jpeg', 'image/png', 'image/gif', 'image/webp', 'image/svg+xml'] as const

/** What object stores hold to, and so do we, wherever the bytes end up. */
export const uploadLimits = {
  parts: 10_000,
  /** Every part but the last has at least this. */
  smallest_part: 5 * mebibyte,
  largest_part: 5 * 1024 * mebibyte,
  name_bytes: 255,
} as const

/** What each kind of file may be: how large, and of which types where not of any. */
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

/** What is known of any file. */
export const fileFields = {
  id: uuid(),
  organization_id: uuid(),
  name: z.string(),
  path: z.string().describe('Where the store keeps it.'),
  mime_type: z.string(),
  size: z.int().describe('In bytes.'),
  storage_version: z.string().nullable(),
  checksum_etag: z.string().nullable(),
  checksum_sha256_base64: z.string().nullable(),
  checksum_sha256_hex: z.string().nullable(),
  last_modified_at: timestamp().nullable().describe('When the store received it; null before.'),
  version: z.string().nullable().describe('Your own name for this version of it.'),
  is_uploaded: z.boolean().describe('It is complete, and is what was announced.'),
  size_readable: z.string().describe('The size as people write it, such as 1.5 MB.'),
}

const kept = { ...fileFields, created_at: timestamp() }
const shownToAll = { public_url: z.string().describe('Where anybody can see it.') }

export const DownloadableFileRead = resource('DownloadableFileRead', {
  ...kept,
  service: z.literal('downloadable'),
  flagged_malicious_at: timestamp().nullable().describe('Since when it is withheld, because it was found to do harm.'),
})
export const ProductMediaFileRead = resource('ProductMediaFileRead', { ...kept, service: z.literal('product_media'), ...shownToAll })
export const OrganizationAvatarFileRead = resource('OrganizationAvatarFileRead', { ...kept, service: z.literal('organization_avatar'), ...shownToAll })
export const SupportCaseAttachmentFileRead = resource('SupportCaseAttachmentFileRead', { ...kept, service: z.literal('support_case_attachment') })

/** Bytes that an organization keeps here: to sell, to show, or to send along. */
export const FileRead = named(
  'FileRead',
  z.discriminatedUnion('service', [DownloadableFileRead, ProductMediaFileRead, OrganizationAvatarFileRead, SupportCaseAttachmentFileRead]),
)
export type FileRead = z.output<typeof FileRead>

export const BenefitDownloadableFile = resource('BenefitDownloadableFile', {
  ...DownloadableFileRead.shape,
  downloaders: z.int().describe('How many holders of the benefit have downloaded it.'),
  downloads: z.int().describe('How often they did.'),
})

const sha256 = () => z.string().regex(/^[A-Za-z0-9+/]{43}=$/, 'Write the 32 bytes of a SHA-256 in base64: 44 characters, the last of them =.')

/** One path segment: it ends up in an object's key, on a disk, and in the header that names a download. */
const fileName = () =>
  text(1, uploadLimits.name_bytes).superRefine((name, ctx) => {
    const refuse = (message: string) => ctx.addIssue({ code: 'custom', message, input: name })
    const bytes = new TextEncoder().encode(name).length
    if (bytes > uploadLimits.name_bytes) refuse(`Received ${bytes} bytes of UTF-8; a name has at most ${uploadLimits.name_bytes}.`)
    if (/[/\\]/.test(name)) refuse('Received a path; give the name of the file alone, without / and \\.')
    if (name === '.' || name === '..') refuse(`Received ${name}, which names a folder; give the name of a file.`)
    if (/\p{Bidi_Control}/u.test(name)) refuse('Received a character that turns the direction of writing, and so can hide how a name ends; leave it out.')
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
      'Give a media type such as application/zip; application/octet-stream where none is known.',
    )

export const S3FileCreatePart = resource('S3FileCreatePart', {
  number: z.int().min(1).max(uploadLimits.parts).describe('1, 2, 3 and so on.'),
  chunk_start: z.int().min(0).describe('The first byte of the part, counted from 0.'),
  chunk_end: z.int().min(1).describe('The first byte that no longer belongs to it.'),
  checksum_sha256_base64: sha256().nullish().describe('Of the part alone; the store then refuses any other bytes.'),
})

const S3FileCreateMultipart = resource('S3FileCreateMultipart', { parts: z.array(S3FileCreatePart).min(1).max(uploadLimits.parts) })

type Part = z.output<typeof S3FileCreatePart>

/** The first thing that keeps parts from being the whole file, once, in order. */
const flawOf = (parts: readonly Part[], size: number): { at: (string | number)[]; message: string; input: number } | undefined => {
  let reached = 0
  for (const [index, { number, chunk_start, chunk_end }] of parts.entries()) {
    const length = chunk_end - chunk_start
    const flaw = (field: string, message: string, input: number) => ({ at: [index, field], message, input })
    if (number !== index + 1) return flaw('number', `Received ${number}; parts are numbered from 1 without a gap, so this one is ${index + 1}.`, number)
    if (chunk_start !== reached)
      return flaw(
        'chunk_start',
        `Received ${chunk_start}; ${index === 0 ? 'the first part begins at 0' : `this part begins at ${reached}, where the one before it ends`}.`,
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
        checksum_sha256_base64: sha256().nullish().describe('Of the whole file: what arrives is held against it.'),
        upload: S3FileCreateMultipart.describe('How the file will be sent.'),
        service: z.literal(service),
        version: version(),
      })
      .superRefine(({ size, upload }, ctx) => {
        const flaw = flawOf(upload.parts, size)
        if (flaw) ctx.addIssue({ code: 'custom', path: ['upload', 'parts', ...flaw.at], message: flaw.message, input: flaw.input })
      }),
  )

/** A file that is about to be sent. */
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
  url: z.string().describe('Where to PUT the bytes of this part.'),
  expires_at: timestamp().describe('Until when the address can be used.'),
  headers: z.record(z.string(), z.string()).describe('To be sent along, exactly so.'),
})

/** The file as it is known so far, and where its parts go. */
export const FileUpload = resource('FileUpload', {
  ...fileFields,
  service: FileServiceTypes,
  upload: resource('S3FileUploadMultipart', {
    id: z.string().describe('The upload; named again when it is complete.'),
    path: z.string(),
    parts: z.array(S3FileUploadPart),
  }),
})
export type FileUpload = z.output<typeof FileUpload>

/** Parts finish in any order, and are reported in any. */
const completedParts = () =>
  z
    .array(
      resource('S3FileUploadCompletedPart', {
        number: z.int().min(1).max(uploadLimits.parts),
        checksum_etag: z.string().min(1).max(255).describe('The ETag that the store answered.'),
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
  id: z.string().min(1).max(1024).describe('The upload, as it was answered when the file was announced.'),
  path: z.string().min(1).max(1024).describe('The path, as it was answered then.'),
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
/** Ten thousand parts with their checksums. */
const bodyLimit = 4 * mebibyte

export const listFiles = operation({
  id: 'files:list',
  method: 'GET',
  path: '/v1/files/',
  summary: 'List files',
  description: 'Those that are uploaded. Attachments of support cases are not listed.',
  access: read,
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

export const createFile = operation({
  id: 'files:create',
  method: 'POST',
  path: '/v1/files/',
  summary: 'Announce a file',
  description: 'Answers an address for each part. PUT the parts there, keep the ETag of each, and report the upload as complete.',
  access: write,
  body: FileCreate,
  returns: FileUpload,
  status: 201,
  reveals: true,
  bodyLimit,
  fails: [NotPermitted],
})

export const completeFile = operation({
  id: 'files:uploaded',
  method: 'POST',
  path: '/v1/files/{id}/uploaded',
  summary: 'Complete an upload',
  description:
    'What arrived is read back: its size, its type and its SHA-256 must be what was announced. A large file takes a while: `is_uploaded` is false until then. Ask again with the same body to learn how it went.',
  access: write,
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
  description: 'Its name or version. What is absent, null or blank stays as it is.',
  access: write,
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
  description: 'It is taken out of every benefit and product, and nobody can download it any more.',
  access: write,
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})

export const listFilesOfBenefit = operation({
  id: 'benefits:files',
  method: 'GET',
  path: '/v1/benefits/{id}/files',
  summary: 'List the files of a benefit',
  description: 'In the order of the benefit, archived ones too, with how often each was downloaded. A benefit of another type has none.',
  access: merchant(['benefits:read', 'benefits:write']),
  params: byId,
  query: z.object(pageQuery),
  returns: page('BenefitDownloadableFilePage', BenefitDownloadableFile),
  fails: [ResourceNotFound],
})
