import { createHash } from 'node:crypto'
import type { View } from '@bursar/views'
import type { FastifyRequest } from 'fastify'
import type { Platform, SellerLook } from '../modules/handlers.ts'
import { hostCookie, readCookie } from '../modules/identity/index.ts'
import { seconds } from '../platform/clock.ts'
import { pause } from '../platform/pause.ts'

/** The part of an address or of a cookie that identifies the seller. */
export type SellerClue = { readonly slug: string } | { readonly id: string } | { readonly link_secret: string } | { readonly checkout_secret: string }

/** Finds a seller with its brand. Undefined for an unknown seller, and for one whose pages are closed. */
export type FindSellerLook = (clue: SellerClue) => Promise<SellerLook | undefined>

/** Maximum number of sellers, and of checkouts and links whose seller is known. The one that was shown longest ago is dropped first. */
const [mostSellers, mostPlaces] = [1000, 10_000]
/** Limits of the reads for error pages, for this process. An attacker who meets a limit must not reach the database instead. */
const reads = { in_a_second: 20, at_once: 2, timeout_ms: 500 } as const

const uuid = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
const patterns = {
  portal: /^\/([\w-]{1,100})\/portal(?:[/?]|$)/,
  checkout: new RegExp(`^/checkout/(${uuid})(?:[/?]|$)`),
  checkout_secret: /^\/checkout\/(\w{20,200})(?:[/?]|$)/,
  link_secret: /^\/v1\/checkout-links\/(\w{20,200})\/redirect(?:[/?]|$)/,
  file: new RegExp(`^/storage/private/\\w+/(${uuid})/`),
}

type Request = Pick<FastifyRequest, 'raw'>

/** True for the pages that name the seller of their address, although they were not rendered for that seller. */
export const isErrorPage = (view: View): boolean => view.kind === 'problem' || view.kind === 'checkout-closed'

/** Adds the seller to a page about an error, with the addresses that lead on. */
export const named = (view: View, look: SellerLook | null | undefined): View =>
  look && (view.kind === 'problem' || view.kind === 'checkout-closed')
    ? { ...view, seller: { name: look.brand.name, slug: look.slug, website: look.brand.website } }
    : view

/**
 * Remembers the sellers of the pages that this process has shown, with their brands. An error page therefore has the
 * look of its seller while the database is down, and costs no statement after too many requests.
 */
export const openSellers = ({ config, clock }: Pick<Platform, 'config' | 'clock'>, findLook: FindSellerLook) => {
  const looks = new Map<string, SellerLook>()
  /** The slugs of the sellers of checkouts and links, by the id or the digest of the secret. */
  const slugs = new Map<string, string>()
  const put = <T>(map: Map<string, T>, key: string, value: T, most: number) => {
    map.delete(key)
    map.set(key, value)
    if (map.size > most) map.delete(map.keys().next().value!)
  }

  /** Returns the clue of a request, and the key under which its seller is remembered. */
  const clueOf = ({ raw: { url = '', headers } }: Request): { readonly clue?: SellerClue; readonly key?: string } => {
    const [, slug] = patterns.portal.exec(url) ?? []
    if (slug !== undefined) return { clue: { slug } }
    const [, checkout] = patterns.checkout.exec(url) ?? []
    if (checkout !== undefined) {
      // The browser keeps the secret of a checkout together with the slug of its seller.
      const [, kept] = readCookie(headers.cookie, hostCookie(config, `checkout_${checkout}`))?.split('.') ?? []
      return { key: checkout, ...(kept !== undefined && /^[\w-]{1,100}$/.test(kept) ? { clue: { slug: kept } } : {}) }
    }
    for (const kind of ['checkout_secret', 'link_secret'] as const) {
      const [, secret] = patterns[kind].exec(url) ?? []
      // Only a digest of the secret stays in memory.
      if (secret !== undefined) return { clue: { [kind]: secret } as SellerClue, key: createHash('sha256').update(secret).digest('base64') }
    }
    const [, id] = patterns.file.exec(url) ?? []
    return id === undefined ? {} : { clue: { id }, key: id }
  }

  const remembered = ({ clue, key }: ReturnType<typeof clueOf>): SellerLook | undefined =>
    looks.get((clue && 'slug' in clue ? clue.slug : undefined) ?? slugs.get(key ?? '') ?? '')

  const note = (request: Request, look: SellerLook): void => {
    const { key } = clueOf(request)
    put(looks, look.slug, look, mostSellers)
    if (key !== undefined) put(slugs, key, look.slug, mostPlaces)
  }

  let [second, begun, reading] = [0, 0, 0]
  /** Reads a seller, unless this process has read too many. Undefined if the database does not answer in time. */
  const read = async (clue: SellerClue): Promise<SellerLook | undefined> => {
    const now = Math.floor(clock.wall().getTime() / seconds)
    if (now !== second) [second, begun] = [now, 0]
    if (begun >= reads.in_a_second || reading >= reads.at_once) return undefined
    begun += 1
    reading += 1
    const found = findLook(clue)
      // The page about the first error is shown without the seller.
      .catch(() => undefined)
      .finally(() => (reading -= 1))
    const late = new AbortController()
    const look = await Promise.race([found, pause(reads.timeout_ms, late.signal).then(() => undefined)])
    late.abort()
    return look
  }

  return {
    note,
    /** Forgets the seller of an address that turned out to belong to no seller. */
    forget: (request: Request): void => {
      const { clue, key } = clueOf(request)
      if (key !== undefined) slugs.delete(key)
      else if (clue && 'slug' in clue) looks.delete(clue.slug)
    },
    /**
     * Returns the seller of an address for an error page: from memory, or else from the database. After a server error,
     * only from memory.
     */
    find: async (request: Request, status: number): Promise<SellerLook | undefined> => {
      const at = clueOf(request)
      const known = remembered(at)
      if (known || !at.clue || status >= 500) return known
      const found = await read(at.clue)
      if (found) note(request, found)
      return found
    },
  }
}
export type Sellers = ReturnType<typeof openSellers>
