import type { Readable } from 'node:stream'

/** A part as it was uploaded: the store's own mark of it, and the checksum that was promised for it, if one was. */
export interface UploadedPart {
  readonly number: number
  readonly etag: string
  readonly checksum_sha256_base64: string | null
}

/** What the store says of an object that is there. */
export interface StoredObject {
  readonly etag: string
  /** Only where the store keeps versions. */
  readonly version: string | null
  readonly size: number
  readonly last_modified_at: Date
  readonly content_type: string
  readonly metadata: Readonly<Record<string, string>>
}

/** An address that may be used without any other credential, until it ends. */
export interface Link {
  readonly url: string
  /** What has to be sent along, as it stands. */
  readonly headers: Readonly<Record<string, string>>
  readonly expires_at: Date
}

export interface OpenUpload {
  readonly key: string
  readonly upload_id: string
  readonly began_at: Date
}

/** So much of a list at a time; `next` is given back as `after`, and is null at the end. */
export interface Paging {
  readonly prefix: string
  readonly after?: string | undefined
  /** From 1 to 1000. */
  readonly limit: number
}

/**
 * One shelf of objects, each under a key. An object appears whole, when its upload is completed, or not at all; who
 * completes under a key that is taken replaces what was there. Keys are what `isKey` allows; `keySegment` makes a part
 * of one out of a file's name. Calls throw `StorageRefusal` or `StorageSilent`.
 */
export interface Bucket {
  /**
   * Opens an upload in parts. Nothing is there to see until it is completed. Silent, it may be open all the same: the
   * sweeper finds it by its key.
   */
  beginUpload(upload: {
    readonly key: string
    /** As `isContentType` allows. */
    readonly content_type: string
    /** Names in small letters, digits and hyphens; values in ASCII; 2 KiB together. */
    readonly metadata: Readonly<Record<string, string>>
    /** Whether every part will come with its checksum. All do, or none: stores refuse a mixture. */
    readonly checksums: boolean
  }): Promise<string>
  /**
   * Where one part is sent, by PUT, with exactly the headers that come along. With a size, a body of another size is
   * refused; with a checksum, one of other content is, by stores that look: not all do, so what counts is read back.
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
   * Makes the object of its parts: every one that came is named, in rising order, and all but the last have at least
   * 5 MiB. Refused as `no_such_upload` when this upload was not opened for this key, as `wrong_part` when a part is not
   * what came. Said again after it was done, with the same parts, it answers the same.
   */
  completeUpload(upload: { readonly key: string; readonly upload_id: string; readonly parts: readonly UploadedPart[] }): Promise<StoredObject>
  /** Throws away an upload and its parts. Of one that is not open, it changes nothing. */
  abortUpload(upload: { readonly key: string; readonly upload_id: string }): Promise<void>
  /** Puts down what this server has made itself, and is small: at once and whole, in place of what was there. */
  put(object: { readonly key: string; readonly content_type: string; readonly bytes: Uint8Array }): Promise<void>
  /** What is under this key now, or nothing. */
  head(key: string): Promise<StoredObject | undefined>
  /**
   * The bytes, no faster than they are taken; from `start` to `end`, both included. It ends only after the last byte:
   * whatever comes between is an error of the stream, `StorageSilent`. Whoever does not read to the end destroys it.
   */
  read(key: string, range?: { readonly start?: number; readonly end?: number }): Promise<Readable>
  /** Where the object can be fetched, as a file to be saved: never shown in place. */
  presignDownload(download: {
    readonly key: string
    /** What it is saved as, in whatever script. */
    readonly name: string
    readonly content_type?: string | undefined
    /** Seconds, at most 300. */
    readonly expires_in: number
  }): Promise<Link>
  /** Removes an object. Of one that is not there, it changes nothing. */
  delete(key: string): Promise<void>
  /** Objects whose keys begin so, in the order of their keys. */
  list(paging: Paging): Promise<{ readonly objects: readonly ListedObject[]; readonly next: string | null }>
  /** Uploads that are open under keys that begin so. */
  listUploads(paging: Paging): Promise<{ readonly uploads: readonly OpenUpload[]; readonly next: string | null }>
}

export interface ListedObject {
  readonly key: string
  readonly size: number
  readonly last_modified_at: Date
}

export interface PublicBucket extends Bucket {
  /** Where anybody can see the object, for good. Pictures are shown in place, SVG and all else is saved. */
  publicUrl(key: string): string
}

/** The stores of this deployment: what only a link opens, and what anybody may see. */
export interface Storage {
  readonly private: Bucket
  readonly public: PublicBucket
  /** Answers the links, where the store has no address of its own and this server has to. */
  readonly serve?: ServeLink
  readonly close: () => void
}

/** What is asked of a link, and what it answers: the store knows no web framework. */
export interface LinkRequest {
  readonly method: string
  /** Path and query, as they came. */
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Readable
  /** Told once the link is known to be good: from here on the request may take its time. */
  readonly admitted?: () => void
}
export interface LinkAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Readable
}
/** Throws `LinkRefused`. */
export type ServeLink = (request: LinkRequest) => Promise<LinkAnswer>

/** A link that is not, or no longer, good; or a body that is not what its link was made for. */
export class LinkRefused extends Error {
  override readonly name = 'LinkRefused'
  readonly code: 'not_permitted' | 'absent' | 'wrong_body' | 'too_large' | 'out_of_range'
  constructor(code: LinkRefused['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** A definite no: nothing was done, and asking again will not help. */
export class StorageRefusal extends Error {
  override readonly name = 'StorageRefusal'
  /** `misconfigured` is for whoever runs this deployment to mend; all else is about what was asked. */
  readonly code: 'no_such_upload' | 'wrong_part' | 'absent' | 'out_of_range' | 'misconfigured'
  constructor(code: StorageRefusal['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** No answer: it may have been done or not. Everything here but beginning an upload can be repeated. */
export class StorageSilent extends Error {
  override readonly name = 'StorageSilent'
}

export const smallestPart = 5 * 1024 * 1024
export const largestPart = 5 * 1024 * 1024 * 1024
export const mostParts = 10_000
/** Seconds. Downloads are handed out one at a time: a link that leaks is soon worth nothing. */
export const longestDownload = 300
export const longestUpload = 3600
