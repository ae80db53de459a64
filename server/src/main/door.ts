import { Usage } from './usage.ts'

/** Where a running deployment is, and who asks it. */
export interface Door {
  api?: string | undefined
  token?: string | undefined
}

export const apiOf = ({ api }: Door): string => api ?? process.env.BURSAR_API ?? 'http://127.0.0.1:4100'

export const tokenOf = (door: Door): string => {
  const token = door.token ?? process.env.BURSAR_TOKEN
  if (!token) throw new Usage('give a token of the organization: --token, or BURSAR_TOKEN. Make one with: bursar token create')
  return token
}
