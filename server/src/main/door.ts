import { Usage } from './usage.ts'

/** Where a command sends its requests: the address of a running deployment, and an access token. */
export interface Door {
  api?: string | undefined
  token?: string | undefined
}

export const apiOf = ({ api }: Door): string => api ?? process.env.BURSAR_API ?? 'http://127.0.0.1:4100'

export const tokenOf = (door: Door): string => {
  const token = door.token ?? process.env.BURSAR_TOKEN
  if (!token) throw new Usage('give a token of the organization with --token or BURSAR_TOKEN. Create one with: bursar token create')
  return token
}
