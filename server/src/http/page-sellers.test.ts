import { createHash } from 'node:crypto'
import {
  confirmClientCheckout,
  createCheckout,
  createCheckoutLink,
  createProduct,
  deleteCheckoutLink,
  followCheckoutLink,
  getOrganization,
  updateOrganization,
  updateProduct,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { giveLogo } from '../../test/harness/brands.ts'
import { asOwner } from '../../test/harness/database.ts'
import { encodePng } from '../../test/harness/png.ts'
import { openVisitor } from '../../test/harness/visitor.ts'
import { exchange, openWorld, type Exchange, type World } from '../../test/harness/world.ts'
import { openApi } from '../main/wire.ts'
import { hours } from '../platform/clock.ts'
import { readConfig } from '../platform/config.ts'
import { openSellers } from './page-sellers.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const browser = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'sec-fetch-mode': 'navigate' }
const price = { amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' } as const

/** Opens a seller with every part of a brand, a product and links. */
const open = async (there = world) => {
  const { api, organization } = await there.shop()
  await api.call(updateOrganization, {
    params: { id: organization.id },
    body: {
      name: 'Harbour & Works',
      email: 'help@harbour.example',
      website: 'https://harbour.example',
      brand_settings: { accent_color: '#1f6feb', terms_url: 'https://harbour.example/terms', privacy_url: 'https://harbour.example/privacy' },
    },
  })
  const logo = await giveLogo(there, organization.id, encodePng({ color: 2, depth: 8, width: 32, height: 32, pixel: (x, y) => [31, x * 8, y * 8, 255] }))
  const product = await api.call(createProduct, { body: { name: 'Field guide', prices: [price] } })
  const link = async (more: Record<string, unknown> = {}) => {
    const made = await api.call(createCheckoutLink, { body: { payment_processor: 'stripe', products: [product.id], ...more } as never })
    return { ...made, path: followCheckoutLink.path.replace('{client_secret}', made.client_secret) }
  }
  const checkout = () => api.call(createCheckout, { body: { products: [product.id] } })
  return { api, organization, product, link, checkout, logo }
}
type Open = Awaited<ReturnType<typeof open>>

/** Expects a page in the full look of the seller: name, logo, icon, colour, links at the foot, and a way on. */
const expectLook = (page: Exchange, status: number, { organization, logo }: Pick<Open, 'organization' | 'logo'>) => {
  expect([page.status, page.headers.get('content-type')]).toEqual([status, 'text/html; charset=utf-8'])
  for (const part of [
    'Harbour &amp; Works',
    `<img src="${logo}"`,
    `<link rel="icon" href="${logo}" type="image/png"/>`,
    '<style>:root{--accent:light-dark(#',
    'href="mailto:help@harbour.example"',
    'href="https://harbour.example/terms"',
    'href="https://harbour.example/privacy"',
    `href="/${organization.slug}/portal"`,
  ])
    expect(page.text).toContain(part)
  expect(page.headers.get('content-security-policy')).toMatch(/style-src 'self' 'sha256-/)
  // A messenger shows no preview of an error page.
  expect(page.text).not.toContain('property="og:')
}
const expectNeutral = (page: Exchange, status: number) => {
  expect([page.status, page.text.includes('Harbour'), page.text.includes('<style>'), page.text.includes('/assets/logos/')]).toEqual([
    status,
    false,
    false,
    false,
  ])
  expect(page.text).toContain('<link rel="icon" href="/favicon.svg" type="image/svg+xml"/>')
}

/** Opens another process of the deployment, which has shown no seller. */
const another = async (budgets: object = {}, there = world) => {
  const api = await openApi({ ...there.base, config: readConfig({ ...there.environmentVariables, BURSAR_BUDGETS: JSON.stringify(budgets) }) })
  await api.server.listen({ host: '127.0.0.1', port: 0 })
  const { port } = api.server.server.address() as { port: number }
  return { get: (path: string, headers: Record<string, string> = {}) => exchange(port, 'GET', path, { ...browser, ...headers }), close: api.close }
}
const get = (path: string) => exchange(world.port, 'GET', path, browser)

describe('the look of the seller', () => {
  test('is on the page of a link that has ended, in its own process and in another one', async () => {
    const shop = await open()
    const made = await shop.link()
    await shop.api.call(deleteCheckoutLink, { params: { id: made.id } })
    const other = await another()
    for (const page of [await get(made.path), await other.get(made.path)]) expectLook(page, 404, shop)
    await other.close()
  })

  test('is on the page of a checkout that has expired, by its address and in the browser that opened it', async () => {
    const own = await openWorld()
    const shop = await open(own)
    const made = await shop.checkout()
    const address = new URL(made.url).pathname
    const visitor = openVisitor(own)
    expect((await visitor.get(address)).at).toBe(`/checkout/${made.id}`)
    own.clock.advance(25 * hours)
    expectLook(await exchange(own.port, 'GET', address, browser), 410, shop)
    expectLook(await visitor.once('GET', `/checkout/${made.id}`), 410, shop)
    await own.close()
  })

  test('is on the page of a checkout whose product was archived, and leads back to the shop', async () => {
    const shop = await open()
    const made = await shop.api.call(createCheckout, { body: { products: [shop.product.id], return_url: 'https://harbour.example/offers' } })
    const visitor = openVisitor(world)
    const { at } = await visitor.get(new URL(made.url).pathname)
    await shop.api.call(updateProduct, { params: { id: shop.product.id }, body: { is_archived: true } })
    const page = await visitor.once('GET', at)
    expectLook(page, 410, shop)
    for (const words of ['This is no longer sold', 'href="https://harbour.example/offers"']) expect(page.text).toContain(words)
    expect((await visitor.once('GET', at, undefined, { 'accept-language': 'de' })).text).toContain('Dieses Produkt wird nicht mehr verkauft')
    const pay = await visitor.once('POST', `${at}/confirm`, { csrf: visitor.field(page.text, 'csrf'), email: 'ada@people.test' })
    expect([pay.status, pay.text.includes('This is no longer sold')]).toEqual([410, true])
  })

  test('is on the pages that a messenger reads for dead links, and none of them has a preview', async () => {
    const own = await openWorld()
    const shop = await open(own)
    const [made, link, waiting, bought] = [await shop.checkout(), await shop.link(), await shop.checkout(), await shop.checkout()]
    const preview = (path: string) => exchange(own.port, 'GET', path, { accept: browser.accept })
    const pathOf = ({ url }: { url: string }) => new URL(url).pathname
    expect((await preview(pathOf(made))).text).toContain('property="og:title" content="Field guide from Harbour &amp; Works"')
    await own.client().call(confirmClientCheckout, {
      params: { client_secret: bought.client_secret },
      body: {
        customer_name: 'Ada',
        customer_email: 'ada@people.test',
        confirmation_token_id: 'tok_visa',
        customer_billing_address: { country: 'DE' },
      } as never,
    })
    const { status, text, headers } = await preview(pathOf(bought))
    expect([status, text, headers.get('location')]).toEqual([303, '', `/checkout/${bought.id}`])
    await shop.api.call(updateProduct, { params: { id: shop.product.id }, body: { is_archived: true } })
    await shop.api.call(deleteCheckoutLink, { params: { id: link.id } })
    expectLook(await preview(pathOf(waiting)), 410, shop)
    expectLook(await preview(link.path), 404, shop)
    own.clock.advance(25 * hours)
    expectLook(await preview(pathOf(made)), 410, shop)
    await own.close()
  })

  test('is on the page of an unknown path of a portal, before any other page of the seller was shown', async () => {
    const shop = await open()
    const other = await another()
    expectLook(await other.get(`/${shop.organization.slug}/portal/nothing`), 404, shop)
    await other.close()
  })

  test('is on pages about too many requests: a link, a checkout, a portal and unknown paths', async () => {
    const shop = await open()
    const [link, made] = [await shop.link(), await shop.checkout()]
    const visitor = openVisitor(world)
    const { at } = await visitor.get(new URL(made.url).pathname)
    const strict = await another({ checkout_link: [[1, 60]], new_page_sessions: [[100, 60]], page_session: [[100, 60]], other_paths: [[1, 60]] })
    const cookie = [...visitor.jar].map(([name, { value }]) => `${name}=${value}`).join('; ')
    for (const path of [link.path, '/login', '/nothing']) await strict.get(path)
    for (const path of [link.path, `/${shop.organization.slug}/portal/sign-in`, `/${shop.organization.slug}/portal/x`, new URL(made.url).pathname]) {
      const page = await strict.get(path)
      expectLook(page, 429, shop)
      expect([path, page.text.includes('One moment, please'), page.text.includes(`data-wait="${page.headers.get('retry-after')}"`)]).toEqual([path, true, true])
    }
    expectLook(await strict.get(at, { cookie }), 429, shop)
    await strict.close()
  })

  test('is not on pages about too many requests that belong to no seller', async () => {
    await open()
    const strict = await another({ checkout_link: [[1, 60]], new_page_sessions: [[100, 60]], other_paths: [[1, 60]] })
    for (const path of ['/login', '/nothing']) await strict.get(path)
    for (const path of ['/nothing', '/nobody/portal', '/nobody/portal/x', '/login']) expectNeutral(await strict.get(path), 429)
    const program = await strict.get('/nothing', { accept: '*/*' })
    expect([program.status, JSON.parse(program.text)]).toMatchObject([429, { error: 'TooManyRequests' }])
    const api = await strict.get('/v1/nothing')
    expect([api.status, JSON.parse(api.text)]).toMatchObject([429, { error: 'TooManyRequests' }])
    await strict.close()
  })

  test('is dropped when the seller is blocked', async () => {
    const shop = await open()
    const [link, made] = [await shop.link(), await shop.checkout()]
    const portal = `/${shop.organization.slug}/portal/sign-in`
    expect((await get(portal)).status).toBe(200)
    expect((await get(link.path)).status).toBe(302)
    await world.database.owner((owner) => owner.query(`update organizations set status = 'blocked' where id = $1`, [shop.organization.id]))
    for (const path of [portal, link.path, `/${shop.organization.slug}/portal/nothing`]) expectNeutral(await get(path), 404)
    const other = await another()
    for (const path of [portal, link.path, `/${shop.organization.slug}/portal/nothing`, `/checkout/${made.id}x`]) expectNeutral(await other.get(path), 404)
    await other.close()
  })
})

describe('without the database', () => {
  test('pages answer 503 in the look of the sellers that the process remembers, and load again by themselves', async () => {
    const own = await openWorld()
    const [shop, stranger] = [await open(own), await open(own)]
    const [link, made] = [await shop.link(), await shop.checkout()]
    const visitor = openVisitor(own)
    const { at } = await visitor.get(new URL(made.url).pathname)
    const address = (path: string) => exchange(own.port, 'GET', path, browser)
    expect((await address(link.path)).status).toBe(302)
    expect((await address(shop.logo)).status).toBe(200)
    const { name } = own.database
    await asOwner('postgres', async (owner) => {
      await owner.query(`alter database ${name} allow_connections false`)
      await owner.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name])
    })
    const portal = `/${shop.organization.slug}/portal/sign-in`
    const pages = [await address(link.path), await address(portal), await address(new URL(made.url).pathname), await visitor.once('GET', at)]
    for (const page of pages) {
      expectLook(page, 503, shop)
      expect(page.headers.get('retry-after')).toBe('5')
      for (const words of ['We will be back in a moment', 'data-wait="5"', '<meta http-equiv="refresh" content="5"/>']) expect(page.text).toContain(words)
    }
    // The logo on these pages comes from memory.
    expect((await address(shop.logo)).status).toBe(200)
    expectNeutral(await address(`/${stranger.organization.slug}/portal/sign-in`), 503)
    const program = await exchange(own.port, 'GET', link.path, { accept: '*/*' })
    expect([program.status, program.headers.get('retry-after'), JSON.parse(program.text)]).toMatchObject([503, '1', { error: 'ServiceUnavailable' }])
    await asOwner('postgres', (owner) => owner.query(`alter database ${name} allow_connections true`))
    expect((await address(portal)).status).toBe(200)
    await own.close()
  })
})

describe('the memory of sellers', () => {
  const look = (slug: string) => ({
    slug,
    brand: { name: slug, logo: null, accent: null, support_email: null, website: null, terms_url: null, privacy_url: null },
  })
  const request = (url: string) => ({ raw: { url, headers: {} } }) as never
  const at = (slug: string) => request(`/${slug}/portal`)
  const openMemory = (answer: (slug: string) => Promise<ReturnType<typeof look> | undefined>) => {
    const asked: string[] = []
    const sellers = openSellers(world.platform, (clue) => {
      const slug = 'slug' in clue ? clue.slug : 'secret'
      asked.push(slug)
      return answer(slug)
    })
    return { asked, sellers }
  }
  const never = () => Promise.resolve(undefined)

  test('has room for a thousand sellers, and drops the one that was shown longest ago', async () => {
    const { asked, sellers } = openMemory(never)
    for (let turn = 0; turn < 1000; turn++) sellers.note(at(`seller-${turn}`), look(`seller-${turn}`))
    sellers.note(at('seller-0'), look('seller-0'))
    sellers.note(at('one-more'), look('one-more'))
    expect(await Promise.all([0, 1, 2].map(async (turn) => (await sellers.find(at(`seller-${turn}`), 503))?.slug))).toEqual(['seller-0', undefined, 'seller-2'])
    expect(asked).toEqual([])
  })

  test('reads a seller once, and at most twenty sellers in a second', async () => {
    world.clock.hold()
    const { asked, sellers } = openMemory((slug) => Promise.resolve(look(slug)))
    for (let turn = 0; turn < 30; turn++) await sellers.find(at('known'), 429)
    expect(asked).toEqual(['known'])
    for (let turn = 0; turn < 30; turn++) await sellers.find(at(`seller-${turn}`), 429)
    expect(asked).toHaveLength(20)
    world.clock.advance(1000)
    expect((await sellers.find(at('later'), 429))?.slug).toBe('later')
    world.clock.release()
  })

  test('does not wait for a slow database, and does not read from one that fails', async () => {
    const slow = openMemory(() => new Promise(() => undefined))
    expect(await Promise.all(['a', 'b', 'c'].map((slug) => slow.sellers.find(at(slug), 404)))).toEqual([undefined, undefined, undefined])
    expect(slow.asked).toEqual(['a', 'b'])
    const broken = openMemory(() => Promise.reject(new Error('down')))
    expect(await broken.sellers.find(at('a'), 404)).toBeUndefined()
    expect(await broken.sellers.find(at('b'), 503)).toBeUndefined()
    expect(broken.asked).toEqual(['a'])
  })

  test('keeps no secret of a link', async () => {
    const { sellers, asked } = openMemory(never)
    const link = request('/v1/checkout-links/bursar_test_cl_0123456789abcdef/redirect')
    sellers.note(link, look('harbour'))
    expect((await sellers.find(link, 503))?.slug).toBe('harbour')
    sellers.forget(link)
    expect(await sellers.find(link, 404)).toBeUndefined()
    expect(asked).toEqual(['secret'])
  })
})

describe('the copy of a logo', () => {
  test('answers HEAD like GET, without a body', async () => {
    const { logo, api, organization } = await open()
    expect((await api.call(getOrganization, { params: { id: organization.id } })).name).toBe('Harbour & Works')
    const [full, head] = [await get(logo), await exchange(world.port, 'HEAD', logo)]
    expect([full.status, head.status, head.text]).toEqual([200, 200, ''])
    for (const name of ['content-type', 'content-length', 'cache-control', 'content-security-policy', 'cross-origin-resource-policy'])
      expect([name, head.headers.get(name)]).toEqual([name, full.headers.get(name)])
    expect((await exchange(world.port, 'HEAD', logo.replace(/[0-9a-f]{32}/, '0'.repeat(32)))).status).toBe(404)
  })

  test('comes from memory, which holds at most eight mebibytes', async () => {
    const { organization } = await open()
    const paths: string[] = []
    await world.database.owner(async (owner) => {
      for (let turn = 0; turn < 9; turn++) {
        const sha256 = createHash('sha256').update(`${turn}${organization.id}`).digest('hex')
        paths.push(`/assets/logos/${organization.id}/${sha256.slice(0, 32)}.png`)
        await owner.query(`insert into organization_logos (organization_id, sha256, created_at, content_type, bytes) values ($1, $2, now(), 'image/png', $3)`, [
          organization.id,
          sha256,
          Buffer.alloc(1024 * 1024, turn),
        ])
      }
    })
    for (const path of paths) expect((await get(path)).status).toBe(200)
    await world.database.owner((owner) => owner.query('delete from organization_logos where organization_id = $1', [organization.id]))
    expect((await get(paths[0]!)).status).toBe(404)
    expect((await get(paths[1]!)).status).toBe(200)
    expect((await get(paths[8]!)).status).toBe(200)
  })
})

test('the icon of pages without a seller is an SVG that browsers may keep, and the sandbox has its own', async () => {
  const [full, head] = [await get('/favicon.svg'), await exchange(world.port, 'HEAD', '/favicon.svg')]
  expect([full.status, full.headers.get('content-type'), head.status, head.text]).toEqual([200, 'image/svg+xml', 200, ''])
  expect(full.text).toMatch(/^<svg [^>]*xmlns="http:\/\/www\.w3\.org\/2000\/svg"/)
  expect(full.text).not.toMatch(/<script|href=/)
  const live = await openWorld({ environment: 'production' })
  const other = await exchange(live.port, 'GET', '/favicon.svg')
  expect([other.status, other.text === full.text]).toEqual([200, false])
  await live.close()
})
