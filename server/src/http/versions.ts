import { defaultVersion, isVersion, UnknownVersion, versions, type Version } from '@bursar/contract'

/** The version a request speaks: the one it names, or the default. An unknown one is refused rather than guessed at. */
export const chooseVersion = (headers: Readonly<Record<string, string | string[] | undefined>>): Version => {
  const asked = headers['bursar-version'] ?? headers['polar-version']
  if (asked === undefined) return defaultVersion
  if (typeof asked === 'string' && isVersion(asked)) return asked
  throw new UnknownVersion(`This version is not served. Served: ${versions.join(', ')}. Leave the header out to get ${defaultVersion}.`)
}
