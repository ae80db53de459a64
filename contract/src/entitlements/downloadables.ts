import { z } from 'zod'
import { fileFields, FileServiceTypes } from '../catalog/files.ts'
import { failure, filter, openAccess, operation, page, pageQuery, portal, resource, ResourceNotFound, timestamp, uuid } from '../kit/index.ts'

/** A file with its download URL. */
export const FileDownload = resource('FileDownload', {
  ...fileFields,
  service: FileServiceTypes,
  download: resource('S3DownloadURL', {
    url: z.string().describe('Opens the download, without a credential.'),
    headers: z.record(z.string(), z.string()).describe('Headers to send with the request; always empty.'),
    expires_at: timestamp().describe('When the address expires at the latest.'),
  }),
})

/** A holder's right to download a file, granted by a benefit. */
export const DownloadableRead = resource('DownloadableRead', { id: uuid(), benefit_id: uuid(), file: FileDownload })
export type DownloadableRead = z.output<typeof DownloadableRead>

export const ResourceUnavailable = failure(
  'ResourceUnavailable',
  410,
  'This link has expired, or your access to the file has ended. Open the portal for a new link.',
)

export const listDownloadables = operation({
  id: 'customer_portal:downloadables:list',
  method: 'GET',
  path: '/v1/customer-portal/downloadables/',
  summary: 'List downloadable files',
  description: 'Files of benefits that are granted now. A plain member sees only their own.',
  access: portal(['customer_portal:read', 'customer_portal:write']),
  costs: 'none',
  query: z.object({ benefit_id: filter(uuid()), ...pageQuery }),
  returns: page('DownloadablePage', DownloadableRead),
  fails: [],
})

// Uses no rate limit against guessing. The token cannot be guessed, and a whole office may download from one IP address.
export const redeemDownload = operation({
  id: 'customer_portal:downloadables:get',
  method: 'GET',
  path: '/v1/customer-portal/downloadables/{token}',
  summary: 'Download a file',
  description: 'Checks again that the benefit is granted. Redirects to the storage, to an address that is valid for at most 5 minutes.',
  access: openAccess({ anyOrigin: true }),
  costs: 'none',
  params: z.object({ token: z.string().min(1).max(500) }),
  status: 302,
  fails: [ResourceNotFound, ResourceUnavailable],
})
