/** Dated API versions, oldest first. A version is frozen once it is listed. */
export const versions = ['2026-04'] as const
export type Version = (typeof versions)[number]

/** The version of requests that name none, and of new webhook endpoints. */
export const defaultVersion: Version = '2026-04'

export const isVersion = (text: string): text is Version => (versions as readonly string[]).includes(text)
