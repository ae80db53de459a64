import { locales, themes } from '@bursar/views'
import type { Platform } from '../../handlers.ts'
import { hostCookie, setCookie } from './cookies.ts'

const year = 365 * 24 * 3600

/** Returns the cookies that store the language and the theme which a form contains. Unknown values are ignored. */
export const preferenceCookies = ({ config }: Pick<Platform, 'config'>, form: URLSearchParams): string[] => {
  const chosen = (name: string, values: readonly string[]) => {
    const value = form.get(name)
    return value !== null && values.includes(value) ? [setCookie(config, hostCookie(config, name), value, year)] : []
  }
  return [...chosen('theme', themes), ...chosen('locale', locales)]
}
