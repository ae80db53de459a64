// An app on a user's own machine. It cannot keep a secret, so it is a public client and uses PKCE.
import { once } from 'node:events'
import { createServer } from 'node:http'
import * as client from 'openid-client'
import { discover, organizationsOf, scope } from './settings.ts'

const port = Number(process.env.PORT ?? 4311)
const redirect_uri = `http://127.0.0.1:${port}/callback`
const config = await discover(undefined)
const verifier = client.randomPKCECodeVerifier()
const state = client.randomState()
const nonce = client.randomNonce()

const server = createServer()
server.listen(port, '127.0.0.1')
await once(server, 'listening')
const address = client.buildAuthorizationUrl(config, {
  redirect_uri,
  scope,
  state,
  nonce,
  code_challenge: await client.calculatePKCECodeChallenge(verifier),
  code_challenge_method: 'S256',
})
process.stdout.write(`open ${address.href}\n`)

const back = await new Promise<URL>((resolve) =>
  server.on('request', (request, response) => {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end('<!doctype html><title>Example</title><p>You can close this window.</p>')
    const url = new URL(request.url ?? '/', redirect_uri)
    if (url.pathname === '/callback') resolve(url)
  }),
)
server.close()
server.closeAllConnections()
const tokens = await client.authorizationCodeGrant(config, back, {
  expectedState: state,
  expectedNonce: nonce,
  pkceCodeVerifier: verifier,
  idTokenExpected: true,
})
process.stdout.write(`${tokens.claims()?.email as string} let us see: ${(await organizationsOf(tokens.access_token)).join(', ')}\n`)
await client.tokenRevocation(config, tokens.access_token)
process.stdout.write('and we have handed the token back\n')
