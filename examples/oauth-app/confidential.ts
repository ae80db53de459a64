// A web app on a server. It keeps a client secret and identifies the browser by a cookie of its own.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import * as client from 'openid-client'
import { discover, organizationsOf, scope } from './settings.ts'

const port = Number(process.env.PORT ?? 4310)
const home = `http://127.0.0.1:${port}`
const redirect_uri = `${home}/callback`
const config = await discover(process.env.CLIENT_SECRET)

/** Pending authorization requests by browser. The callback must match one. */
const asked = new Map<string, { state: string; nonce: string; verifier: string }>()
const escape = (text: string) => text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`)

createServer((request, response) => {
  const page = (html: string, headers: Record<string, string> = {}) =>
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', ...headers }).end(`<!doctype html><title>Example</title>${html}`)
  const browser = /(?:^|; )browser=([\w-]+)/.exec(request.headers.cookie ?? '')?.[1] ?? randomUUID()
  const here = new URL(request.url ?? '/', home)

  const answer = async () => {
    if (here.pathname === '/login') {
      const mine = { state: client.randomState(), nonce: client.randomNonce(), verifier: client.randomPKCECodeVerifier() }
      asked.set(browser, mine)
      const address = client.buildAuthorizationUrl(config, {
        redirect_uri,
        scope,
        state: mine.state,
        nonce: mine.nonce,
        code_challenge: await client.calculatePKCECodeChallenge(mine.verifier),
        code_challenge_method: 'S256',
      })
      response.writeHead(303, { location: address.href, 'set-cookie': `browser=${browser}; HttpOnly; SameSite=Lax; Path=/` }).end()
      return
    }
    if (here.pathname === '/callback') {
      const mine = asked.get(browser)
      asked.delete(browser)
      if (!mine) return void page('<p>Nothing was asked for in this browser. <a href="/login">Begin again</a></p>')
      const tokens = await client.authorizationCodeGrant(config, here, {
        expectedState: mine.state,
        expectedNonce: mine.nonce,
        pkceCodeVerifier: mine.verifier,
        idTokenExpected: true,
      })
      // A real app stores both tokens. The access token is valid for ten days; the refresh token gets the next pair.
      const next = await client.refreshTokenGrant(config, tokens.refresh_token!)
      const names = await organizationsOf(next.access_token)
      return void page(`<h1>Hello ${escape(tokens.claims()?.email as string)}</h1><ul>${names.map((name) => `<li>${escape(name)}</li>`).join('')}</ul>`)
    }
    page('<p><a href="/login">Sign in with Bursar</a></p>')
  }
  answer().catch((error: unknown) => {
    // The user denied access, or a check failed. Show the error and offer to start again.
    response.writeHead(400, { 'content-type': 'text/html; charset=utf-8' }).end(`<p>${escape(String(error))}</p><a href="/login">Begin again</a>`)
  })
}).listen(port, '127.0.0.1', () => process.stdout.write(`open ${home}\n`))
