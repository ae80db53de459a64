import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { versions } from '@bursar/contract'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { networkOf } from '../kernel/networks.ts'
import type { Budgets } from './budget.ts'
import { anyOrigin } from './requests.ts'

const { resolve } = createRequire(import.meta.url)

type Version = (typeof versions)[number]
type Encoding = 'br' | 'gzip' | 'identity'

interface Served {
  readonly tag: string
  readonly bodies: Readonly<Record<Encoding, Buffer>>
}

/** Mounts the OpenAPI documents. Each is read and compressed once, at its first request. A client that has the current one gets 304. */
export const mountDocuments = (server: FastifyInstance, budgets: Budgets): void => {
  const known = new Map<Version, Promise<Served>>()
  for (const version of versions)
    server.get(`/${version}/openapi.json`, async (request, reply) => {
      reply.headers({ ...anyOrigin, 'cross-origin-resource-policy': 'cross-origin', ...(await budgets.spend('other_paths', networkOf(request.ip))) })
      const loading = known.get(version) ?? load(version)
      known.set(version, loading)
      // A failure is not kept, so that the next request tries again.
      loading.catch(() => known.delete(version))
      const { tag, bodies } = await loading
      reply.headers({ etag: tag, vary: 'accept-encoding', 'cache-control': 'public, no-cache' })
      if (isCurrent(request.headers['if-none-match'], tag)) return reply.code(304).send()
      const encoding = encodingOf(request)
      if (encoding !== 'identity') reply.header('content-encoding', encoding)
      return reply.type('application/json').send(bodies[encoding])
    })
}

/** Reads the generated document. Building it from the declarations would block the process for a second. */
const load = async (version: Version): Promise<Served> => {
  const text = await readFile(resolve(`@bursar/contract/documents/${version}.json`), 'utf8')
  const identity = Buffer.from(JSON.stringify(JSON.parse(text)))
  const [br, zipped] = await Promise.all([
    promisify(brotliCompress)(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
    promisify(gzip)(identity, { level: 9 }),
  ])
  return { tag: `"${createHash('sha256').update(identity).digest('base64url')}"`, bodies: { br, gzip: zipped, identity } }
}

/** Returns the encoding with the smallest result that the client accepts. Without `accept-encoding`, the document is sent uncompressed. */
const encodingOf = ({ headers }: FastifyRequest): Encoding => {
  const accepted = new Set(
    (headers['accept-encoding'] ?? '')
      .split(',', 20)
      .map((part) => part.split(';', 2).map((word) => word.trim().toLowerCase()))
      .filter(([, weight]) => weight !== 'q=0')
      .map(([name]) => name),
  )
  return accepted.has('br') ? 'br' : accepted.has('gzip') ? 'gzip' : 'identity'
}

const isCurrent = (condition: string | undefined, tag: string): boolean =>
  condition !== undefined && condition.split(',', 20).some((one) => one.trim() === '*' || one.trim().replace(/^W\//, '') === tag)
