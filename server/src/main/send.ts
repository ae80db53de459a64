import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { connect, type Client } from '@bursar/contract/client'
import { seconds } from '../platform/clock.ts'

/** Returns a client for a running deployment, typed by the contract. */
export const connectTo = (base: string, token: string): Client =>
  connect(({ method, url, headers, body }) => send(method, new URL(url, base).href, body, headers), { authorization: `Bearer ${token}` })

/** Sends one request of a CLI command to the address that the user of the command gave. */
export const send = (
  method: string,
  url: string,
  body: string | undefined,
  headers: Record<string, string>,
): Promise<{ status: number; headers: Headers; text: string }> =>
  new Promise((resolve, reject) => {
    const request = (url.startsWith('https:') ? httpsRequest : httpRequest)(
      url,
      { method, headers: { ...headers, ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }) }, timeout: 40 * seconds },
      (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => chunks.push(chunk))
        answer.on('error', reject)
        answer.on('end', () => {
          const received = new Headers()
          for (let at = 0; at < answer.rawHeaders.length; at += 2) received.append(answer.rawHeaders[at]!, answer.rawHeaders[at + 1]!)
          resolve({ status: answer.statusCode!, headers: received, text: Buffer.concat(chunks).toString() })
        })
      },
    )
    request.on('timeout', () => request.destroy(new Error('no answer in time')))
    request.on('error', reject)
    request.end(body)
  })

/** Sends a request and returns the response as a stream, for bodies that are too large for memory. */
export const receive = (url: string, headers: Record<string, string>): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const request = (url.startsWith('https:') ? httpsRequest : httpRequest)(url, { headers }, resolve)
    request.on('error', (error: Error & { code?: string }) =>
      reject(
        error.code === 'ECONNREFUSED'
          ? new Error(`there is no answer from ${new URL(url).origin}. Check that the server runs and that --api is right`, { cause: error })
          : error,
      ),
    )
    request.end()
  })
