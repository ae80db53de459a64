import * as client from 'openid-client'

const needed = (name: string): string => {
  const value = process.env[name]
  if (!value) throw new Error(`Set ${name}: README.md says how to get it.`)
  return value
}

/** Reads the server's OAuth metadata from its discovery document. Allows an issuer with plain http, which is for your own machine only. */
export const discover = (secret: string | undefined): Promise<client.Configuration> => {
  const issuer = new URL(needed('ISSUER'))
  const local = issuer.protocol === 'http:'
  return client.discovery(issuer, needed('CLIENT_ID'), {}, secret === undefined ? client.None() : client.ClientSecretPost(secret), {
    execute: local ? [client.allowInsecureRequests] : [],
  })
}

/** Lists the organizations that the user granted access to. */
export const organizationsOf = async (accessToken: string): Promise<string[]> => {
  const answer = await fetch(new URL('/v1/organizations/', needed('ISSUER')), { headers: { authorization: `Bearer ${accessToken}` } })
  if (!answer.ok) throw new Error(`The API answered ${answer.status}: ${await answer.text()}`)
  const { items } = (await answer.json()) as { items: { name: string }[] }
  return items.map(({ name }) => name)
}

export const scope = 'openid email organizations:read'
