/** Dated versions of the wire, oldest first. A version is frozen once it is listed; the last one is the default for new endpoints. */
export const versions = ['2026-04'] as const
export type Version = (typeof versions)[number]

/** What a request gets when it names no version. */
export const defaultVersion: Version = '2026-04'

export const isVersion = (text: string): text is Version => (versions as readonly string[]).includes(text)
