import type { Config } from '../../../platform/config.ts'

type Place = Pick<Config, 'environment' | 'public_url'>

/** On https nothing but this host can set or read a cookie of ours; its name says its environment. */
export const hostCookie = ({ environment, public_url }: Place, what: string): string =>
  `${public_url.protocol === 'https:' ? '__Host-' : ''}bursar_${environment}_${what}`

export const cookieName = (config: Place): string => hostCookie(config, 'session')

/** Likewise for the portal, with the organization's id behind it: a browser can be in the portals of several sellers. */
export const portalCookiePrefix = (config: Place): string => hostCookie(config, 'portal_')

/** Signed in by mail, second factor still to come. */
export const pendingCookieName = (config: Place): string => hostCookie(config, 'sign_in')

/** A cookie that scripts cannot read and other sites cannot make a browser send along with a change. */
export const setCookie = (config: Pick<Config, 'public_url'>, name: string, value: string, seconds: number): string =>
  `${name}=${value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=${seconds}${config.public_url.protocol === 'https:' ? '; Secure' : ''}`

/** The value of one cookie of a request. */
export const readCookie = (header: string | undefined, name: string): string | undefined =>
  (header?.split(';') ?? []).map((pair) => pair.trim().split('=', 2)).find(([key, value]) => key === name && value)?.[1]
