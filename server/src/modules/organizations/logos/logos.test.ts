import { getOrganization, getPortalOrganization, updateOrganization } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brand, foxLogo, logoOf, openPictureHost } from '../../../../test/harness/brands.ts'
import { exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { sizeOf, typeOf } from '../../../kernel/pictures.ts'
import { findLivingOrganization } from '../organizations/organizations.sql.ts'
import { keepLogo, readKeptLogo } from './logos.ts'

let world: World
let host: Awaited<ReturnType<typeof openPictureHost>>
beforeAll(async () => {
  ;[world, host] = await Promise.all([openWorld({ worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } }), openPictureHost()])
})
afterAll(async () => {
  await host.close()
  await world.close()
})

/** A PNG whose header claims this size. Only its header is read. */
const png = (width: number, height: number, bytes = 100): Buffer => {
  const header = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')
  const size = Buffer.alloc(8)
  size.writeUInt32BE(width, 0)
  size.writeUInt32BE(height, 4)
  return Buffer.concat([header, size, Buffer.alloc(Math.max(0, bytes - 24), 7)])
}
const seen = (slug: string) => world.client().call(getPortalOrganization, { params: { slug } })

describe('the brand of a seller', () => {
  test('changes only the fields that an update names, and clears a field with null', async () => {
    const { api, organization } = await world.shop()
    const update = (brand_settings: object) => api.call(updateOrganization, { params: { id: organization.id }, body: { brand_settings } })
    const none = { accent_color: null, terms_url: null, privacy_url: null }
    expect((await api.call(getOrganization, { params: { id: organization.id } })).brand_settings).toEqual(none)
    expect((await update({ accent_color: ' #1F6FEB ' })).brand_settings).toEqual({ ...none, accent_color: '#1f6feb' })
    expect((await update({ terms_url: 'https://acme.example/terms' })).brand_settings).toEqual({
      accent_color: '#1f6feb',
      terms_url: 'https://acme.example/terms',
      privacy_url: null,
    })
    expect((await update({ accent_color: null })).brand_settings).toEqual({ ...none, terms_url: 'https://acme.example/terms' })
  })

  test.each([
    [{ accent_color: 'red' }, 'accent_color'],
    [{ accent_color: '#fff' }, 'accent_color'],
    [{ accent_color: '#12345678' }, 'accent_color'],
    [{ accent_color: '#123456;}body{display:none' }, 'accent_color'],
    [{ terms_url: 'javascript:alert(1)' }, 'terms_url'],
    [{ privacy_url: 'data:text/html,x' }, 'privacy_url'],
  ])('refuses the brand %j', async (brand_settings, field) => {
    const { api, organization } = await world.shop()
    const answer = await api.sendRaw(updateOrganization, { params: { id: organization.id }, body: { brand_settings } })
    expect(answer).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'brand_settings', field] }] } })
  })

  test('cannot be changed by another seller, and is public for buyers', async () => {
    const [shop, stranger] = [await world.shop(), await world.shop()]
    host.files.set('/fox.svg', { type: 'text/plain', bytes: Buffer.from(foxLogo('#e4572e')) })
    await brand(world, shop, host.at('/fox.svg'))
    const answer = await stranger.api.send(updateOrganization, { params: { id: shop.organization.id }, body: { brand_settings: { accent_color: '#000000' } } })
    expect(answer.status).toBe(404)
    const { organization } = await seen(shop.organization.slug)
    expect(organization.brand).toMatchObject({
      accent_color: '#e4572e',
      support_email: 'help@alder-finch.example.com',
      website: 'https://www.alder-finch.example.com/shop',
      terms_url: 'https://alder-finch.example.com/terms',
      privacy_url: 'https://alder-finch.example.com/privacy',
      logo: { content_type: 'image/svg+xml', width: 32, height: 32 },
    })
  })
})

describe('the copy of a logo', () => {
  test('is served for ever under its checksum, and its policy forbids scripts', async () => {
    const shop = await world.shop()
    host.files.set('/script.svg', {
      type: 'image/svg+xml',
      bytes: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><script>alert(1)</script></svg>'),
    })
    await brand(world, shop, host.at('/script.svg'))
    const { path } = (await seen(shop.organization.slug)).organization.brand.logo!
    expect(path).toMatch(/^\/assets\/logos\/[0-9a-f-]{36}\/[0-9a-f]{32}\.svg$/)
    const answer = await exchange(world.port, 'GET', path, { host: 'bursar.test' })
    expect([answer.status, answer.headers.get('content-type'), answer.headers.get('cache-control')]).toEqual([
      200,
      'image/svg+xml',
      'public, max-age=31536000, immutable',
    ])
    expect(answer.headers.get('content-security-policy')).toBe("default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'")
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
    expect(answer.headers.get('content-disposition')).toBe('attachment')
    const [other] = [(await world.shop()).organization]
    for (const wrong of [path.replace('.svg', ''), path.replace(shop.organization.id, other.id), path.replace(/[0-9a-f]{32}/, '0'.repeat(32)), `${path}/..`])
      expect((await exchange(world.port, 'GET', wrong, { host: 'bursar.test' })).status).toBe(404)
  })

  test('replaces the previous one, disappears with the avatar, and is fetched again if the same address is sent', async () => {
    const shop = await world.shop()
    const at = host.at('/changing.png')
    const logo = async () => (await seen(shop.organization.slug)).organization.brand.logo
    host.files.set('/changing.png', { type: 'image/png', bytes: png(64, 32) })
    await brand(world, shop, at)
    const first = await logo()
    expect(first).toMatchObject({ content_type: 'image/png', width: 64, height: 32 })
    host.files.set('/changing.png', { type: 'image/png', bytes: png(32, 64) })
    await world.database.owner((owner) => owner.query('update organizations set logo = null where id = $1', [shop.organization.id]))
    await brand(world, shop, at)
    expect(await logo()).toMatchObject({ width: 32, height: 64 })
    expect((await exchange(world.port, 'GET', first!.path, { host: 'bursar.test' })).status).toBe(200)
    await shop.api.call(updateOrganization, { params: { id: shop.organization.id }, body: { avatar_url: null } })
    expect(await logo()).toBeNull()
  })

  test('keeps the five newest copies of an organization', async () => {
    const shop = await world.shop()
    for (let turn = 1; turn <= 7; turn++) {
      host.files.set(`/turn-${turn}.png`, { type: 'image/png', bytes: png(turn, turn) })
      await brand(world, shop, host.at(`/turn-${turn}.png`))
    }
    const { rows } = await world.database.owner((owner) => owner.query('select from organization_logos where organization_id = $1', [shop.organization.id]))
    expect(rows).toHaveLength(5)
  })

  test('that a document shows is kept for ever', async () => {
    const shop = await world.shop()
    const copies = async () =>
      (
        await world.database.owner((owner) =>
          owner.query<{ sha256: string; in_documents: boolean }>(
            'select sha256, in_documents from organization_logos where organization_id = $1 order by created_at',
            [shop.organization.id],
          ),
        )
      ).rows
    const keep = () => world.transact(async (tx) => keepLogo(tx, (await findLivingOrganization(tx, shop.organization))!))
    expect(await keep()).toBeNull()
    host.files.set('/kept.png', { type: 'image/png', bytes: png(90, 90) })
    await brand(world, shop, host.at('/kept.png'))
    const [first] = await copies()
    expect([await keep(), await keep()]).toEqual([first!.sha256, first!.sha256])
    for (let turn = 1; turn <= 7; turn++) {
      host.files.set(`/after-${turn}.png`, { type: 'image/png', bytes: png(turn, turn) })
      await brand(world, shop, host.at(`/after-${turn}.png`))
    }
    expect((await copies()).map(({ in_documents }) => in_documents)).toEqual([true, false, false, false, false, false])
    expect(await readKeptLogo(world.api.postgres.db, shop.organization.id, first!.sha256)).toEqual(png(90, 90))
    // Documents show no SVG, and no logo that was removed.
    host.files.set('/vector.svg', { type: 'image/svg+xml', bytes: Buffer.from(foxLogo('#e4572e')) })
    await brand(world, shop, host.at('/vector.svg'))
    expect(await keep()).toBeNull()
    await shop.api.call(updateOrganization, { params: { id: shop.organization.id }, body: { avatar_url: null } })
    expect(await keep()).toBeNull()
  })

  test('is left out of further documents once 50 different logos are kept', async () => {
    const shop = await world.shop()
    const { id } = shop.organization
    const keep = () => world.transact(async (tx) => keepLogo(tx, (await findLivingOrganization(tx, shop.organization))!))
    host.files.set('/fiftieth.png', { type: 'image/png', bytes: png(50, 50) })
    await brand(world, shop, host.at('/fiftieth.png'))
    await world.database.owner((owner) =>
      owner.query(
        `insert into organization_logos (organization_id, sha256, created_at, content_type, bytes, in_documents)
         select $1, encode(sha256(convert_to(n::text, 'utf8')), 'hex'), now(), 'image/png', '\\x00', true from generate_series(1, 49) n`,
        [id],
      ),
    )
    const fiftieth = await keep()
    expect(fiftieth).not.toBeNull()
    host.files.set('/next.png', { type: 'image/png', bytes: png(51, 51) })
    await brand(world, shop, host.at('/next.png'))
    expect(await keep()).toBeNull()
    // A logo that is kept already is shown again.
    await brand(world, shop, host.at('/fiftieth.png'))
    expect(await keep()).toBe(fiftieth)
  })

  test.each([
    ['more than a mebibyte', { type: 'image/png', bytes: png(10, 10, 1024 * 1024 + 1) }, /more than 1048576 bytes/],
    ['too many pixels', { type: 'image/png', bytes: png(5000, 10) }, /larger than 4096/],
    ['an error', { status: 500, type: 'text/plain', bytes: Buffer.from('no') }, /status 500/],
    ['a redirect', { status: 302, type: 'text/plain', bytes: Buffer.alloc(0), location: 'http://169.254.169.254/' }, /status 302/],
  ])('records why it refuses %s', async (name, file, problem) => {
    const shop = await world.shop()
    const path = `/${name.replaceAll(' ', '-')}.png`
    host.files.set(path, file)
    expect(await brand(world, shop, host.at(path))).toMatchObject({ problem: expect.stringMatching(problem) })
    expect((await seen(shop.organization.slug)).organization.brand.logo).toBeNull()
  })

  test('refuses a page that its host calls a picture', async () => {
    const shop = await world.shop()
    host.files.set('/page.png', { type: 'image/png', bytes: Buffer.from('<html><script>alert(1)</script></html>') })
    const state = await brand(world, shop, host.at('/page.png'))
    expect(state).toEqual({ source: host.at('/page.png'), problem: 'The address leads to no PNG, JPEG, GIF, WebP or SVG picture.' })
  })

  test('is tried again if the host does not answer, and needs no new job', async () => {
    const shop = await world.shop()
    const { close, at } = await openPictureHost()
    await close()
    expect(await brand(world, shop, at('/down.png'))).toEqual({ source: at('/down.png'), problem: 'The picture could not be fetched yet.' })
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ attempts: number }>(
        `select attempts from graphile_worker._private_jobs where payload ->> 'organization_id' = $1 and attempts < max_attempts`,
        [shop.organization.id],
      ),
    )
    expect(rows).toHaveLength(1)
  })

  test('never asks a private address', async () => {
    const shop = await world.shop()
    await shop.api.call(updateOrganization, { params: { id: shop.organization.id }, body: { avatar_url: 'https://10.0.0.1/logo.png' } })
    expect(await logoOf(world, shop.organization.id)).toHaveProperty('problem')
  })
})

describe('the size of a picture', () => {
  const jpeg = Buffer.concat([Buffer.from('ffd8ffe000040000ffc000110800200040', 'hex'), Buffer.alloc(20)])
  const gif = Buffer.concat([Buffer.from('GIF89a'), Buffer.from([64, 0, 32, 0]), Buffer.alloc(20)])
  const webp = (chunk: string, data: Buffer) => Buffer.concat([Buffer.from('RIFF\0\0\0\0WEBP'), Buffer.from(chunk), Buffer.alloc(4), data, Buffer.alloc(20)])
  test.each([
    ['JPEG', jpeg],
    ['GIF', gif],
    ['WebP, lossy', webp('VP8 ', Buffer.from('0000009d012a40002000', 'hex'))],
    ['WebP, lossless', webp('VP8L', Buffer.from('2f3fc00700', 'hex'))],
    ['WebP, extended', webp('VP8X', Buffer.from('000000003f00001f0000', 'hex'))],
    ['SVG with a view box', Buffer.from('<svg viewBox="0 0 64 32">')],
    ['SVG with sizes', Buffer.from(`<?xml version="1.0"?><svg width='64px' height="32">`)],
  ])('is read from a %s', (_, bytes) => expect(sizeOf(typeOf(bytes)!, bytes)).toEqual({ width: 64, height: 32 }))

  test('is unknown for a picture that is cut off or has none', () => {
    for (const bytes of [jpeg.subarray(0, 6), gif.subarray(0, 8), png(0, 4), Buffer.from('<svg>'), webp('XXXX', Buffer.alloc(0))])
      expect(sizeOf(typeOf(bytes)!, bytes)).toBeUndefined()
  })
})
