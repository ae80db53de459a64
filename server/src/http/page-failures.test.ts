import { createCheckout, createCheckoutLink, createProduct, deleteCheckoutLink, followCheckoutLink, updateOrganization, updateProduct } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openVisitor } from '../../test/harness/visitor.ts'
import { eventually, exchange, openWorld, type World } from '../../test/harness/world.ts'
import { hours } from '../platform/clock.ts'
import { prefersHtml } from './page-failures.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const browser = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' }
const get = (path: string, headers: Record<string, string> = browser) => exchange(world.port, 'GET', path, headers)
const price = { amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' } as const

const open = async () => {
  const { api, organization } = await world.shop()
  await api.call(updateOrganization, { params: { id: organization.id }, body: { name: 'Harbour & Works', website: 'https://harbour.example' } })
  const product = await api.call(createProduct, { body: { name: 'Field guide', prices: [price] } })
  const link = async (more: Record<string, unknown> = {}) => {
    const made = await api.call(createCheckoutLink, { body: { payment_processor: 'stripe', products: [product.id], ...more } as never })
    return { ...made, path: followCheckoutLink.path.replace('{client_secret}', made.client_secret) }
  }
  return { api, organization, product, link }
}

describe('a checkout link', () => {
  test('that was deleted leads a browser to the seller, and a program to the JSON error', async () => {
    const { api, organization, link } = await open()
    const made = await link()
    await api.call(deleteCheckoutLink, { params: { id: made.id } })
    const page = await get(made.path)
    expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
    for (const words of ['This offer has ended', 'Harbour &amp; Works', 'href="https://harbour.example', `href="/${organization.slug}/portal"`])
      expect(page.text).toContain(words)
    expect((await get(made.path, { ...browser, 'accept-language': 'de' })).text).toContain('Dieses Angebot ist beendet')
    for (const accept of ['application/json', '*/*', 'application/json, text/html;q=0.9'])
      expect(JSON.parse((await get(made.path, { accept })).text)).toEqual({ error: 'ResourceNotFound', detail: 'Not found' })
    expect(JSON.parse((await get(made.path, {})).text)).toMatchObject({ error: 'ResourceNotFound' })
  })

  test('names the seller of an archived product, and leads back to the shop', async () => {
    const { api, product, link } = await open()
    const made = await link({ return_url: 'https://shop.example/offers' })
    await api.call(updateProduct, { params: { id: product.id }, body: { is_archived: true } })
    await eventually('the link has ended', async () => (await get(made.path)).status === 404)
    const page = await get(made.path)
    for (const words of ['This offer has ended', 'Harbour &amp; Works', 'href="https://shop.example/offers"']) expect(page.text).toContain(words)
  })

  test('names no seller for an unknown link or a blocked seller', async () => {
    const { organization, link } = await open()
    const made = await link()
    await world.database.owner((owner) => owner.query(`update organizations set status = 'blocked' where id = $1`, [organization.id]))
    for (const path of [made.path, made.path.replace(/.redirect$/, 'x/redirect'), '/v1/checkout-links/x/redirect']) {
      const page = await get(path)
      expect([page.status, page.text.includes('There is no such checkout'), page.text.includes('Harbour')]).toEqual([404, true, false])
    }
  })

  test('answers HEAD like GET, without a body', async () => {
    const { link } = await open()
    const made = await link()
    const head = await exchange(world.port, 'HEAD', made.path, browser)
    expect([head.status, head.text, new URL(head.headers.get('location')!).pathname.startsWith('/checkout/')]).toEqual([302, '', true])
  })
})

describe('a checkout', () => {
  test('that has expired names its seller, by its address and in the browser that opened it', async () => {
    const { api, organization, product } = await open()
    const made = await api.call(createCheckout, { body: { products: [product.id], return_url: null } })
    const visitor = openVisitor(world)
    const address = new URL(made.url).pathname
    const { at } = await visitor.get(address)
    expect(at).toBe(`/checkout/${made.id}`)
    world.clock.advance(25 * hours)
    const [byAddress, inBrowser] = [await get(address), await visitor.once('GET', at)]
    for (const page of [byAddress, inBrowser]) {
      expect(page.status).toBe(410)
      for (const words of ['This checkout has expired', 'Harbour &amp; Works', `href="/${organization.slug}/portal"`]) expect(page.text).toContain(words)
    }
  })
})

describe('error pages', () => {
  test('answer HEAD of pages, of files and of unknown paths with the status and headers of GET', async () => {
    const { organization } = await open()
    const stylesheet = /href="(\/assets\/[\w-]+\.css)"/.exec((await get('/login')).text)![1]!
    for (const path of ['/login', `/${organization.slug}/portal/sign-in`, '/nobody/portal', '/checkout/x', '/nothing', stylesheet]) {
      const [full, head] = [await get(path), await exchange(world.port, 'HEAD', path, browser)]
      expect([path, head.status, head.text, head.headers.get('content-type')]).toEqual([path, full.status, '', full.headers.get('content-type')])
      for (const name of ['content-security-policy', 'location', 'cache-control'])
        expect([path, name, head.headers.get(name)]).toEqual([path, name, full.headers.get(name)])
    }
  })
})

test('an old link of a download is a page for a browser, and an error for a program', async () => {
  const path = '/storage/private/nothing?until=1&signature=x'
  const page = await get(path)
  expect([page.status >= 400, page.headers.get('content-type'), page.text.includes('This link is no longer valid')]).toEqual([
    true,
    'text/html; charset=utf-8',
    true,
  ])
  expect((await get(path, { accept: '*/*' })).headers.get('content-type')).toContain('json')
})

describe('a form that meets a limit', () => {
  const limited = async () => {
    const strict = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[1_000_000, 60]], sign_in: [[1, 60]] }) } })
    const { organization } = await strict.shop()
    const visitor = openVisitor(strict)
    const path = `/${organization.slug}/portal/sign-in`
    const csrf = visitor.field((await visitor.once('GET', path)).text, 'csrf')
    await visitor.once('POST', path, { csrf, step: 'email', email: 'ada@people.test' })
    return { strict, visitor, path, csrf }
  }

  test('is part of the page with all its fields, escaped, and a button that sends it', async () => {
    const { strict, visitor, path, csrf } = await limited()
    const refused = await visitor.once('POST', path, { csrf, step: 'email', email: 'a"><script>@people.test' })
    expect(refused.status).toBe(429)
    expect(refused.text).toContain(`<form action="${path}" method="post">`)
    expect(visitor.field(refused.text, 'email')).toBe('a&quot;&gt;&lt;script&gt;@people.test')
    expect(visitor.field(refused.text, 'step')).toBe('email')
    expect(visitor.field(refused.text, 'csrf')).toBe(csrf)
    expect(refused.text).toContain(`data-wait="${refused.headers.get('retry-after')}"`)
    await strict.close()
  })

  test('is not repeated if it has more fields than any page of ours', async () => {
    const { strict, visitor, path, csrf } = await limited()
    const many = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`field-${at}`, 'ada']))
    const refused = await visitor.once('POST', path, { csrf, ...many })
    expect([refused.status, refused.text.includes('field-1')]).toEqual([429, false])
    await strict.close()
  })

  test('is not repeated if another site sent it', async () => {
    const { strict, visitor, path, csrf } = await limited()
    const foreign = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
    const refused = await visitor.once('POST', path, { csrf: 'x', step: 'email', email: 'ada@people.test' }, foreign)
    expect([refused.status, refused.text.includes('ada@people.test')]).toEqual([403, false])
    const login = await visitor.once('POST', '/login', { csrf: 'x', step: 'email', email: 'ada@people.test' })
    expect([login.status, login.text.includes('ada@people.test')]).toEqual([429, false])
    expect(csrf).not.toBe('x')
    await strict.close()
  })
})

test('prefers HTML as browsers do, and JSON for everything else', () => {
  const asked = (accept?: string) => prefersHtml({ headers: accept === undefined ? {} : { accept } })
  expect([undefined, '*/*', 'application/json', 'application/json, text/html;q=0.5', 'text/html;q=0'].map(asked)).toEqual([false, false, false, false, false])
  expect(['text/html', browser.accept, 'text/html;q=0.9, application/json;q=0.8', 'TEXT/HTML'].map(asked)).toEqual([true, true, true, true])
})
