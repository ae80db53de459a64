import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { connect, type Client } from '@bursar/contract/client'
import { bursar } from '../kernel/command-name.ts'
import { seconds } from '../platform/clock.ts'
import { openStatus } from './bar.ts'
import { Unreachable } from './usage.ts'

/** Returns a client for a running deployment, typed by the contract. A quiet client shows no status line. */
export const connectTo = (base: string, token: string, { quiet = false }: { quiet?: boolean } = {}): Client =>
  connect(
    async ({ method, url, headers, body }) => {
      const answer = await sendToApi(method, new URL(url, base).href, body, headers, quiet)
      reportIgnored(answer)
      return answer
    },
    { authorization: `Bearer ${token}` },
  )

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Sends a request to the API. Says which address does not answer, because most commands also use a database. */
export const sendToApi = async (
  method: string,
  url: string,
  body: string | undefined,
  headers: Record<string, string>,
  quiet: boolean = false,
): Promise<Answer> => {
  const status = quiet ? undefined : openStatus(`waiting for ${new URL(url).host}`)
  const answer = await send(method, url, body, headers)
    .catch((error: unknown) => {
      throw unreachable(error as Error, url)
    })
    .finally(() => status?.end())
  if (!answer.headers.has(requestId)) throw notBursar(answer.status, url)
  return answer
}

/** Every answer of Bursar has this header. Without a check of it, the page of another server would look like a success. */
const requestId = 'x-request-id'
const notBursar = (status: number | undefined, url: string): Error =>
  new Error(`${new URL(url).origin} answered ${status}, but it is no Bursar server. Check that BURSAR_API or --api is the address of Bursar`)

const unreachable = (error: Error & { code?: string }, url: string): Error => {
  const code = error.code ?? 'ETIMEDOUT'
  const { origin, protocol } = new URL(url)
  const advice =
    code === 'EPROTO' && protocol === 'https:'
      ? 'The server may speak http:// instead'
      : `Check that the server runs (${bursar} dev, or ${bursar} serve), and that BURSAR_API or --api is its address`
  return new Unreachable(`there is no answer from ${origin} (${code}). ${advice}`, code, error)
}

/** Prints the names that the API ignored, because one of them may be misspelled. */
export const reportIgnored = ({ headers }: Answer): void => {
  const ignored = headers.get('bursar-ignored')
  if (ignored !== null) process.stderr.write(`The API does not know these names, and ignored them: ${ignored}\n`)
}

/** Sends one request of a CLI command to the address that the user of the command gave. */
export const send = (method: string, url: string, body: string | undefined, headers: Record<string, string>): Promise<Answer> =>
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
    const request = (url.startsWith('https:') ? httpsRequest : httpRequest)(url, { headers }, (answer) => {
      if (answer.headers[requestId] !== undefined) return resolve(answer)
      answer.destroy()
      reject(notBursar(answer.statusCode, url))
    })
    request.on('error', (error: Error) => reject(unreachable(error, url)))
    request.end()
  })
