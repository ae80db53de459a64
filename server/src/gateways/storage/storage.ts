import type { Readable } from 'node:stream'

/** An uploaded part: its number, the etag that the store returned, and the checksum that the client announced, if any. */
export interface UploadedPart {
  readonly number: number
  readonly etag: string
  readonly checksum_sha256_base64: string | null
}

/** Properties of a stored object. */
export interface StoredObject {
  readonly etag: string
  /** The version id of the object. Null if the store does not keep versions. */
  readonly version: string | null
  readonly size: number
  readonly last_modified_at: Date
  readonly content_type: string
  readonly metadata: Readonly<Record<string, string>>
}

/** A URL that grants access without other credentials until it expires. */
export interface Link {
  readonly url: string
  /** Headers that a request to this URL must contain unchanged. */
  readonly headers: Readonly<Record<string, string>>
  readonly expires_at: Date
}

export interface OpenUpload {
  readonly key: string
  readonly upload_id: string
  readonly began_at: Date
}

/** The request for one page of a list. Pass the `next` of a page as `after` to get the following page; `next` is null at the end. */
export interface Paging {
  readonly prefix: string
  readonly after?: string | undefined
  /** From 1 to 1000. */
  readonly limit: number
}

/**
 * One bucket of objects, each under a key. An object appears completely, when its upload is completed, or not at all.
 * Completion under an existing key replaces the object. `isKey` defines valid keys, and `keySegment` converts a file
 * name to a part of one. Calls throw `StorageRefusal` or `StorageSilent`.
 */
export interface Bucket {
  /**
   * Opens a multipart upload. The object is visible only after completion. After `StorageSilent` the upload may be
   * open; the periodic cleanup finds it by its key.
   */
  beginUpload(upload: {
    readonly key: string
    /** Valid by `isContentType`. */
    readonly content_type: string
    /** Names consist of lower-case letters, digits and hyphens, values of ASCII characters. The maximum is 2 KiB in total. */
    readonly metadata: Readonly<Record<string, string>>
    /** True if every part has a checksum. Either all parts have one or none, because stores refuse a mixture. */
    readonly checksums: boolean
  }): Promise<string>
  /**
   * Returns the link for the PUT of one part, with the required headers. A body of another size than the given one is
   * refused. A wrong checksum is refused only by some stores, so the object must be verified by reading it back.
   */
  presignPart(part: {
    readonly key: string
    readonly upload_id: string
    /** From 1 to 10,000. */
    readonly number: number
    readonly size?: number | undefined
    readonly checksum_sha256_base64?: string | undefined
    /** Seconds, at most 3600. */
    readonly expires_in: number
  }): Promise<Link>
  /**
   * Creates the object from its parts. All uploaded parts must be named, in ascending order, and all but the last have
   * at least 5 MiB. Throws `no_such_upload` if the upload was not opened for this key, and `wrong_part` if a part
   * differs. Idempotent for the same parts.
   */
  completeUpload(upload: { readonly key: string; readonly upload_id: string; readonly parts: readonly UploadedPart[] }): Promise<StoredObject>
  /** Deletes an upload and its parts. Idempotent. */
  abortUpload(upload: { readonly key: string; readonly upload_id: string }): Promise<void>
  /** Writes a small object that this server created. Atomic, replaces an existing one. */
  put(object: { readonly key: string; readonly content_type: string; readonly bytes: Uint8Array }): Promise<void>
  /** Returns the object under this key, or undefined. */
  head(key: string): Promise<StoredObject | undefined>
  /**
   * Streams the bytes from `start` to `end`, both included, with backpressure. The stream ends only after the last
   * byte; otherwise it fails with `StorageSilent`. A consumer that stops early must destroy it.
   */
  read(key: string, range?: { readonly start?: number; readonly end?: number }): Promise<Readable>
  /** Returns a link that downloads the object, never inline. */
  presignDownload(download: {
    readonly key: string
    /** File name of the download, in any script. */
    readonly name: string
    readonly content_type?: string | undefined
    /** Seconds, at most 300. */
    readonly expires_in: number
  }): Promise<Link>
  /** Deletes an object. Idempotent. */
  delete(key: string): Promise<void>
  /** Lists the objects with this prefix, ordered by key. */
  list(paging: Paging): Promise<{ readonly objects: readonly ListedObject[]; readonly next: string | null }>
  /** Lists the open uploads whose keys have this prefix. */
  listUploads(paging: Paging): Promise<{ readonly uploads: readonly OpenUpload[]; readonly next: string | null }>
}

export interface ListedObject {
  readonly key: string
  readonly size: number
  readonly last_modified_at: Date
}

export interface PublicBucket extends Bucket {
  /** Returns the permanent public URL of the object. Images are displayed inline; SVG and other types are downloaded. */
  publicUrl(key: string): string
}

/** The stores of this deployment: a private one with access by links, and a public one. */
export interface Storage {
  readonly private: Bucket
  readonly public: PublicBucket
  /** Serves the links if the store has no server of its own. */
  readonly serve?: ServeLink
  readonly close: () => void
}

/** A request to a link, independent of the web framework. */
export interface LinkRequest {
  readonly method: string
  /** Path and query as received. */
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Readable
  /** Called once the link of an upload is verified. The request may then exceed the request timeout. */
  readonly admitted?: () => void
}
export interface LinkAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Readable
}
/** Throws `LinkRefused`. */
export type ServeLink = (request: LinkRequest) => Promise<LinkAnswer>

/** An invalid or expired link, or a body that does not match its link. */
export class LinkRefused extends Error {
  override readonly name = 'LinkRefused'
  readonly code: 'not_permitted' | 'absent' | 'wrong_body' | 'too_large' | 'out_of_range'
  constructor(code: LinkRefused['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** The store rejected the request. The request had no effect, and a retry will not help. */
export class StorageRefusal extends Error {
  override readonly name = 'StorageRefusal'
  /** `misconfigured` must be fixed by the operator. All other codes concern the request. */
  readonly code: 'no_such_upload' | 'wrong_part' | 'absent' | 'out_of_range' | 'misconfigured'
  constructor(code: StorageRefusal['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The store did not respond, so the effect may or may not have happened. All calls except `beginUpload` can be retried. */
export class StorageSilent extends Error {
  override readonly name = 'StorageSilent'
}

export const smallestPart = 5 * 1024 * 1024
export const largestPart = 5 * 1024 * 1024 * 1024
export const mostParts = 10_000
/** Maximum lifetime of a download link in seconds. It is short, because each download gets its own link and a link may leak. */
export const longestDownload = 300
export const longestUpload = 3600
