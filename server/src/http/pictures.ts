import { ResourceNotFound } from '@bursar/contract'
import type { FastifyInstance } from 'fastify'
import { networkOf } from '../kernel/networks.ts'
import type { HttpContext } from './context.ts'

type Picture = NonNullable<Awaited<ReturnType<HttpContext['findLogo']>>>

/** Maximum size of all logos that this process remembers. The logo that was sent longest ago is dropped first. */
const mostRemembered = 8 * 1024 * 1024

/**
 * Serves the copies of the sellers' logos. The path contains the checksum, so that caches may keep a logo for ever. Mails
 * and link previews load it from other sites. A logo may be an SVG, so its own content security policy forbids scripts. An
 * SVG is not opened as a page of its own, because it could look like a page of this service. Logos stay in memory, so that
 * error pages show them while the database is down. HEAD answers like GET.
 */
export const mountPictures = (room: FastifyInstance, { budgets, findLogo }: Pick<HttpContext, 'budgets' | 'findLogo'>): void => {
  const remembered = new Map<string, Picture>()
  let size = 0
  const logoAt = async (organization_id: string, name: string): Promise<Picture | undefined> => {
    const key = `${organization_id}/${name}`
    const known = remembered.get(key)
    const logo = known ?? (await findLogo(organization_id, name))
    if (!logo) return undefined
    if (remembered.delete(key)) size -= logo.bytes.length
    remembered.set(key, logo)
    size += logo.bytes.length
    for (const [oldest, { bytes }] of remembered) {
      if (size <= mostRemembered) break
      remembered.delete(oldest)
      size -= bytes.length
    }
    return logo
  }
  const options = { exposeHeadRoute: true }
  room.get<{ Params: { organization_id: string; name: string } }>('/assets/logos/:organization_id/:name', options, async (request, reply) => {
    reply.headers(await budgets.spend('page_address', networkOf(request.ip)))
    const logo = await logoAt(request.params.organization_id, request.params.name)
    if (!logo) throw new ResourceNotFound()
    return reply
      .headers({
        'cache-control': 'public, max-age=31536000, immutable',
        'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'",
        'cross-origin-resource-policy': 'cross-origin',
        ...(logo.content_type.startsWith('image/svg') ? { 'content-disposition': 'attachment' } : {}),
      })
      .type(logo.content_type)
      .send(logo.bytes)
  })
}
