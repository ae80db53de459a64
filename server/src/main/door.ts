import { bursar } from '../kernel/command-name.ts'
import { Usage } from './usage.ts'

/** Where a command sends its requests: the address of a running deployment, and an access token. */
export interface Door {
  api?: string | undefined
  token?: string | undefined
}

/** Checks an address that a person typed. Without a scheme, `localhost:4100` would be a URL with the scheme `localhost`. */
export const readAddress = (text: string, from: string): string => {
  if (/^https?:\/\/[^/?#]/i.test(text) && URL.canParse(text)) return text
  if (/^https?:\/\/[^/?#]/i.test(text))
    throw new Usage(`${from} takes an address with a host and a port up to 65535, not ${JSON.stringify(text)}. Example: http://localhost:3000`)
  const bare = text.replace(/^[a-z]*:?\/\//i, '')
  // A number alone is a port of this machine.
  const host = /^\d{1,5}(\/|$)/.test(bare) ? `localhost:${bare}` : bare
  const scheme = /^(localhost|127\.|\[::1\])/.test(host) ? 'http' : 'https'
  const meant = `${scheme}://${host}`
  throw new Usage(
    `${from} takes an address that begins with http:// or https://, not ${JSON.stringify(text)}.${host !== '' && URL.canParse(meant) ? ` Did you mean ${meant}?` : ''}`,
  )
}

export const apiOf = ({ api }: Door): string => {
  if (api !== undefined) return readAddress(api, '--api')
  const variable = process.env.BURSAR_API
  return variable ? readAddress(variable, 'BURSAR_API') : 'http://127.0.0.1:4100'
}

export const tokenOf = (door: Door): string => {
  const token = door.token ?? process.env.BURSAR_TOKEN
  if (!token)
    throw new Usage(
      `give a token of the organization with --token or BURSAR_TOKEN. Create one with: ${bursar} token create --organization <slug> --comment <text> --scopes <a,b>. Beside a running ${bursar} dev, no token is needed${door.api === undefined && !process.env.BURSAR_API ? '' : ' if neither BURSAR_API nor --api is given'}`,
    )
  return token
}
