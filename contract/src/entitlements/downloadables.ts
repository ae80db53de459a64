import { z } from 'zod'
import { fileFields, FileServiceTypes } from '../catalog/files.ts'
import { failure, filter, open, operation, page, pageQuery, portal, resource, ResourceNotFound, timestamp, uuid } from '../kit/index.ts'

/** A file, and the address at which whoever may have it gets it. */
export const FileDownload = resource('FileDownload', {
  ...fileFields,
  service: FileServiceTypes,
  download: resource('S3DownloadURL', {
    url: z.string().describe('Opens the download, without a credential.'),
    headers: z.record(z.string(), z.string()).describe('To be sent along; empty here.'),
    expires_at: timestamp().describe('Until when the address can be used, at most.'),
  }),
})

/** That somebody may download a file, because they have a benefit. */
export const DownloadableRead = resource('DownloadableRead', { id: uuid(), benefit_id: uuid(), file: FileDownload })
export type DownloadableRead = z.output<typeof DownloadableRead>

export const ResourceUnavailable = failure(
  'ResourceUnavailable',
  410,
  'This link has expired, or what it leads to is no longer yours to download. Open the portal for a new one.',
)

export const listDownloadables = operation({
  id: 'customer_portal:downloadables:list',
  method: 'GET',
  path: '/v1/customer-portal/downloadables/',
  summary: 'List the files to download',
  description: 'Of benefits that are granted now. A plain member sees their own.',
  access: portal(['customer_portal:read', 'customer_portal:write']),
  query: z.object({ benefit_id: filter(uuid()), ...pageQuery }),
  returns: page('DownloadablePage', DownloadableRead),
  fails: [],
})

// No guessing budget: a link cannot be guessed, and a whole office downloads from one address.
export const redeemDownload = operation({
  id: 'customer_portal:downloadables:get',
  method: 'GET',
  path: '/v1/customer-portal/downloadables/{token}',
  summary: 'Download a file',
  description: 'Whether the benefit is still granted is asked again here. Leads to the store, at an address that lives for 5 minutes at most.',
  access: open({ anyOrigin: true }),
  params: z.object({ token: z.string().min(1).max(500) }),
  status: 302,
  fails: [ResourceNotFound, ResourceUnavailable],
})
