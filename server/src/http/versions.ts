import { defaultVersion, isVersion, UnknownVersion, versions, type Version } from '@bursar/contract'

/** Returns the API version of a request: the one that it names, or the default. Rejects an unknown version. */
export const chooseVersion = (headers: Readonly<Record<string, string | string[] | undefined>>): Version => {
  const asked = headers['bursar-version'] ?? headers['polar-version']
  if (asked === undefined) return defaultVersion
  if (typeof asked === 'string' && isVersion(asked)) return asked
  throw new UnknownVersion(
    `The request asks for version ${JSON.stringify(String(asked).slice(0, 40))}. Supported: ${versions.join(', ')}. With @polar-sh/sdk, import from '@polar-sh/sdk/${versions.at(-1)}'. Without it, leave the version header out to get ${defaultVersion}.`,
  )
}
