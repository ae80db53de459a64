import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { updateOrganization } from '@bursar/contract'
import { sizeOf } from '../../src/kernel/pictures.ts'
import type { Browser } from './browser.ts'
import { eventually, type World } from './world.ts'

/** Draws a picture as a PNG. */
export const draw = async (browser: Browser, svg: string, width: number, height: number): Promise<Buffer> => {
  const page = await browser.newPage({ viewport: { width, height } })
  await page.setContent(`<style>body{margin:0}</style>${svg}`)
  const bytes = await page.screenshot({ omitBackground: true })
  await page.close()
  return bytes
}

/** A fox on a rounded square. */
export const foxLogo = (colour: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="256" height="256" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="${colour}"/><path d="M7 8l5 4h8l5-4v9l-9 9-9-9z" fill="#fff"/><circle cx="13" cy="17" r="1.4"/><circle cx="19" cy="17" r="1.4"/></svg>`

/** A landscape in the given colours. */
export const landscape = (sky: string, hill: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" width="960" height="600" viewBox="0 0 96 60"><rect width="96" height="60" fill="${sky}"/><circle cx="70" cy="18" r="8" fill="#fff" opacity=".85"/><path d="M0 48L24 22l20 20 14-12 38 30H0z" fill="${hill}"/><path d="M0 60V46l30 8 66-10v16z" fill="${hill}" opacity=".6"/></svg>`

/** Opens the host of a seller's pictures. It records its requests. */
export const openPictureHost = async () => {
  const files = new Map<string, { readonly status?: number; readonly type: string; readonly bytes: Buffer; readonly location?: string }>()
  const requests: { readonly path: string; readonly headers: NodeJS.Dict<string | string[]> }[] = []
  const server = createServer((request, response) => {
    requests.push({ path: request.url!, headers: request.headers })
    const file = files.get(request.url!)
    if (!file) return void response.writeHead(404).end()
    response.writeHead(file.status ?? 200, { 'content-type': file.type, ...(file.location === undefined ? {} : { location: file.location }) }).end(file.bytes)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { files, requests, at: (path: string) => `${origin}${path}`, close: () => new Promise((resolve) => server.close(resolve)) }
}

/** Waits until the worker has copied the logo of an organization, or has refused it. Returns the result. */
export const logoOf = (world: World, organization_id: string): Promise<Record<string, unknown>> =>
  eventually('the logo was copied', () =>
    world.database.owner(async (owner) => {
      const { rows } = await owner.query<{ logo: Record<string, unknown> | null }>(
        `select logo from organizations where id = $1 and logo ->> 'source' = avatar_url`,
        [organization_id],
      )
      return rows[0]?.logo ?? undefined
    }),
  )

/** Stores a copy of a logo as if the worker had fetched it. Returns its path on pages. */
export const giveLogo = async (world: World, organization_id: string, bytes: Buffer, content_type = 'image/png'): Promise<string> => {
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const { width, height } = sizeOf(content_type, bytes)!
  const source = `https://cdn.example.com/${sha256}`
  await world.database.owner(async (owner) => {
    await owner.query(
      `insert into organization_logos (organization_id, sha256, created_at, content_type, bytes) values ($1, $2, now(), $3, $4) on conflict do nothing`,
      [organization_id, sha256, content_type, bytes],
    )
    await owner.query('update organizations set avatar_url = $2, logo = $3 where id = $1', [
      organization_id,
      source,
      JSON.stringify({ source, sha256, content_type, width, height }),
    ])
  })
  return `/assets/logos/${organization_id}/${sha256.slice(0, 32)}.png`
}

type Shop = Awaited<ReturnType<World['shop']>>

/** Gives a seller a name and every part of a brand. */
export const brand = async (world: World, { api, organization }: Shop, avatar_url: string, accent_color = '#e4572e') => {
  await api.call(updateOrganization, {
    params: { id: organization.id },
    body: {
      name: 'Alder & Finch',
      avatar_url,
      email: 'help@alder-finch.example.com',
      website: 'https://www.alder-finch.example.com/shop',
      brand_settings: { accent_color, terms_url: 'https://alder-finch.example.com/terms', privacy_url: 'https://alder-finch.example.com/privacy' },
    },
  })
  return logoOf(world, organization.id)
}
