import type { Config } from '../../../platform/config.ts'

type Place = Pick<Config, 'environment' | 'public_url'>

/** Returns the name of a cookie, which contains the environment. On https, the prefix `__Host-` prevents other hosts from setting or reading the cookie. */
export const hostCookie = ({ environment, public_url }: Place, what: string): string =>
  `${public_url.protocol === 'https:' ? '__Host-' : ''}bursar_${environment}_${what}`

export const cookieName = (config: Place): string => hostCookie(config, 'session')

/** Prefix of the portal cookies. The organization id follows, because one browser can be signed in to the portals of several sellers. */
export const portalCookiePrefix = (config: Place): string => hostCookie(config, 'portal_')

/** Name of the cookie of a sign-in that waits for its second factor. */
export const pendingCookieName = (config: Place): string => hostCookie(config, 'sign_in')

/** Builds a cookie header. Scripts cannot read the cookie, and browsers do not send it with cross-site POST requests. */
export const setCookie = (config: Pick<Config, 'public_url'>, name: string, value: string, seconds: number): string =>
  `${name}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${seconds}${config.public_url.protocol === 'https:' ? '; Secure' : ''}`

/** Returns the value of one cookie of a request. */
export const readCookie = (header: string | undefined, name: string): string | undefined =>
  (header?.split(';') ?? []).map((pair) => pair.trim().split('=', 2)).find(([key, value]) => key === name && value)?.[1]
