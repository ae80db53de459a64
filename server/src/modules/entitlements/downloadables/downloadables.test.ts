import {
  createBenefit,
  deleteBenefit,
  deleteCustomer,
  deleteFile,
  listDownloadables,
  listFilesOfBenefit,
  revokeBenefitGrant,
  updateBenefit,
  createBenefitGrant,
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openEntitlements, type Entitlements } from '../../../../test/harness/entitlements.ts'
import { stores, storeSettings, upload } from '../../../../test/harness/stores.ts'
import { exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { Secret } from '../../../kernel/secrets.ts'
import { hours, minutes } from '../../../platform/clock.ts'

describe.each(stores)('downloads from %s', (store) => {
  let world: World
  let entitlements: Entitlements
  beforeAll(async () => {
    world = await openWorld({ browser: true, settings: await storeSettings(store) })
    entitlements = await openEntitlements(world)
  })
  afterAll(async () => {
    await entitlements.close()
    await world.close()
  })

  const open = async (phase: 'before' | 'phase1' | 'phase2' = 'phase2') => {
    const shop = await entitlements.open(phase)
    const { api } = shop
    const file = (text: string) => upload(api, Buffer.from(text), { name: `${text}.txt`, mime_type: 'text/plain' })
    const bodyOf = (files: readonly { id: string }[], archived: readonly { id: string }[] = []) => ({
      type: 'downloadables' as const,
      properties: { files: files.map(({ id }) => id), archived: Object.fromEntries(archived.map(({ id }) => [id, true])) },
    })
    const album = (files: readonly { id: string }[]) => api.call(createBenefit, { body: { ...bodyOf(files), description: 'The album' } })
    const edit = async (id: string, files: readonly { id: string }[], archived: readonly { id: string }[] = []) => {
      await api.call(updateBenefit, { params: { id }, body: bodyOf(files, archived) as never })
      await entitlements.pass()
    }
    return { ...shop, file, album, edit }
  }

  const listed = async (client: Client, query: object = {}) => (await client.call(listDownloadables, { query })).items
  const names = async (client: Client) => (await listed(client)).map(({ file }) => file.name).toSorted()
  /** Requests a portal link without authentication, because the link itself proves the access. */
  const redeem = async (url: string) => {
    const { pathname } = new URL(url)
    const { status, headers, text } = await exchange(world.port, 'GET', pathname)
    return { status, location: headers.get('location'), error: status === 302 ? null : (JSON.parse(text) as { error: string }).error }
  }
  const fetched = async (url: string) => {
    const answer = await fetch(url)
    return { status: answer.status, text: await answer.text(), saved: answer.headers.get('content-disposition') ?? '' }
  }

  test('a recipient of a downloads benefit downloads its files, and each download is counted', async () => {
    const { api, file, album, product, buy, portal, grants } = await open()
    const [a, b] = [await file('one'), await file('zwei – 2')]
    const benefit = await album([a, b])
    const { id } = await product([benefit])
    const { customer_id } = await buy(id)
    const client = await portal(customer_id)
    const [grant] = await grants()
    expect(grant).toMatchObject({ is_granted: true, properties: { files: [a.id, b.id] } })
    const items = await listed(client)
    expect(items.map(({ benefit_id, file: { name, download } }) => [benefit_id, name, download.headers])).toEqual(
      expect.arrayContaining([
        [benefit.id, 'one.txt', {}],
        [benefit.id, 'zwei – 2.txt', {}],
      ]),
    )
    const second = items.find(({ file: { name } }) => name !== 'one.txt')!
    const { url, expires_at } = second.file.download
    const life = Date.parse(expires_at) - world.clock.wall().getTime()
    expect(life > 59 * minutes && life <= hours).toBe(true)
    for (let times = 0; times < 2; times++) {
      const { status, location } = await redeem(url)
      expect(status).toBe(302)
      const got = await fetched(location!)
      expect(got).toMatchObject({
        status: 200,
        text: 'zwei – 2',
        saved: expect.stringMatching(/^attachment;.*filename\*=UTF-8''zwei%20%E2%80%93%202\.txt/) as string,
      })
    }
    // The URL of the object store contains its own expiry.
    const direct = new URL((await redeem(url)).location!)
    const until = direct.searchParams.get('expires')
    const lives = until === null ? Number(direct.searchParams.get('X-Amz-Expires')) : Number(until) - world.clock.wall().getTime() / 1000
    expect(lives).toBeLessThanOrEqual(300)
    expect(lives).toBeGreaterThan(200)
    const counts = (await api.call(listFilesOfBenefit, { params: { id: benefit.id } })).items.map(({ downloads, downloaders }) => [downloads, downloaders])
    expect(counts).toEqual([
      [0, 0],
      [3, 1],
    ])
    expect(await listed(client, { benefit_id: [benefit.id], limit: 1 })).toHaveLength(1)
    expect(await listed(client, { benefit_id: a.id })).toEqual([])
    expect(await listed(await portal((await buy((await product([])).id)).customer_id))).toEqual([])
  })

  test('refuses a download link after its grant was revoked or its file was deleted', async () => {
    const { api, file, album, product, buy, portal, grants } = await open()
    const [a, b] = [await file('kept'), await file('deleted')]
    const benefit = await album([a, b])
    const { id } = await product([benefit])
    const { customer_id } = await buy(id)
    const client = await portal(customer_id)
    const links = (await listed(client)).map(({ file: { name, download } }) => [name, download.url] as const)
    const link = (name: string) => links.find(([one]) => one === name)![1]
    const [grant] = await grants()

    await api.call(deleteFile, { params: { id: b.id } })
    expect(await redeem(link('deleted.txt'))).toMatchObject({ status: 410, error: 'ResourceUnavailable' })
    expect(await names(client)).toEqual(['kept.txt'])
    await entitlements.pass()
    expect((await grants())[0]).toMatchObject({ properties: { files: [a.id] } })

    expect((await redeem(link('kept.txt'))).status).toBe(302)
    await api.call(revokeBenefitGrant, { params: { grant_id: grant!.id } })
    expect(await redeem(link('kept.txt'))).toMatchObject({ status: 410, error: 'ResourceUnavailable' })
    expect(await listed(client)).toEqual([])
    expect((await api.call(listFilesOfBenefit, { params: { id: benefit.id } })).items).toMatchObject([{ downloads: 1, downloaders: 1 }])

    // When a benefit is granted again, its downloadable and its download count are kept.
    const by = await api.call(createBenefitGrant, { body: { customer_id, benefit_id: benefit.id } })
    const [again] = await listed(client)
    expect((await redeem(again!.file.download.url)).status).toBe(302)
    expect((await redeem(link('kept.txt'))).status).toBe(410)
    await api.call(revokeBenefitGrant, { params: { grant_id: by.id } })
    await api.call(createBenefitGrant, { body: { customer_id, benefit_id: benefit.id } })
    expect((await listed(client))[0]!.id).toBe(again!.id)
    expect((await redeem(again!.file.download.url)).status).toBe(302)
    expect((await api.call(listFilesOfBenefit, { params: { id: benefit.id } })).items).toMatchObject([{ downloads: 3, downloaders: 1 }])
    // A deleted customer cannot download, even before the jobs have revoked their grants.
    await api.call(deleteCustomer, { params: { id: customer_id } })
    expect((await redeem(again!.file.download.url)).status).toBe(410)
  })

  test('refuses a download link after its benefit was deleted or its file was removed from the benefit', async () => {
    const { api, file, album, edit, product, buy, portal } = await open()
    const [a, b] = [await file('stays'), await file('leaves')]
    const benefit = await album([a, b])
    const { customer_id } = await buy((await product([benefit])).id)
    const client = await portal(customer_id)
    const before = new Map((await listed(client)).map(({ file: { name, download } }) => [name, download.url]))
    await edit(benefit.id, [a])
    expect(await names(client)).toEqual(['stays.txt'])
    expect((await redeem(before.get('leaves.txt')!)).status).toBe(410)
    expect((await redeem(before.get('stays.txt')!)).status).toBe(302)
    await api.call(deleteBenefit, { params: { id: benefit.id } })
    expect((await redeem(before.get('stays.txt')!)).status).toBe(410)
  })

  test('a file added to a benefit is available to all recipients, and an archived file only to those who already have it', async () => {
    const { file, album, edit, product, buy, portal, told, grants } = await open()
    const [a, b, c] = [await file('old'), await file('archived'), await file('new')]
    const benefit = await album([a, b])
    const { id } = await product([benefit])
    const early = await portal((await buy(id)).customer_id)
    const [grant] = await grants()
    await edit(benefit.id, [a, b, c], [b])
    const late = await portal((await buy(id)).customer_id)
    expect(await names(early)).toEqual(['archived.txt', 'new.txt', 'old.txt'])
    expect(await names(late)).toEqual(['new.txt', 'old.txt'])
    expect((await told(grant!.id)).at(-1)).toMatchObject({
      type: 'benefit_grant.updated',
      data: { properties: { files: [a.id, b.id, c.id] }, previous_properties: { files: [a.id, b.id] } },
    })
  })

  test('returns 404 for a forged download link and 410 for an expired one', async () => {
    const { file, album, product, buy, portal } = await open()
    const benefit = await album([await file('timed')])
    const client = await portal((await buy((await product([benefit])).id)).customer_id)
    const [one] = await listed(client)
    const { url } = one!.file.download
    const elsewhere = Buffer.from(world.platform.sealer.seal(new Secret('x y z'), 'webhook')).toString('base64url')
    const at = url.length - 12
    const bent = url.slice(0, at) + (url[at] === 'A' ? 'B' : 'A') + url.slice(at + 1)
    for (const wrong of [
      bent,
      `${world.config.public_url.origin}/v1/customer-portal/downloadables/${elsewhere}`,
      `${world.config.public_url.origin}/v1/customer-portal/downloadables/x`,
    ])
      expect(await redeem(wrong)).toMatchObject({ status: 404, error: 'ResourceNotFound' })
    expect((await redeem(url)).status).toBe(302)
    // Builds a link whose token has just expired.
    const old = world.platform.sealer.seal(new Secret(`${one!.file.organization_id} ${one!.id} ${world.clock.wall().getTime() - 1}`), 'download')
    expect(await redeem(`${world.config.public_url.origin}/v1/customer-portal/downloadables/${Buffer.from(old).toString('base64url')}`)).toMatchObject({
      status: 410,
      error: 'ResourceUnavailable',
    })
  })

  test('each seat holder downloads their own files, and downloadables stay with the grant in the member model [S2-10]', async () => {
    const { api, organization, phase, file, album, product, buy, seat, revokeSeat, portal } = await open('phase1')
    const benefit = await album([await file('team')])
    const bought = await buy((await product([benefit], { seats: true })).id, { seats: 3 })
    const [anna, ben] = [await seat(bought), await seat(bought)]
    const clients = { anna: await portal(anna.holder_customer_id!), ben: await portal(ben.holder_customer_id!), buyer: await portal(bought.customer_id) }
    const [annas] = await listed(clients.anna)
    const [bens] = await listed(clients.ben)
    expect(await listed(clients.anna)).toHaveLength(1)
    expect(await listed(clients.buyer)).toEqual([])
    expect(annas!.id).not.toBe(bens!.id)
    for (const { file: one } of [annas!, annas!, bens!]) expect((await redeem(one.download.url)).status).toBe(302)
    expect((await api.call(listFilesOfBenefit, { params: { id: benefit.id } })).items).toMatchObject([{ downloads: 3, downloaders: 2 }])
    await phase('phase2')
    const member = await portal(bought.customer_id, anna.member_id)
    const [moved] = await listed(member)
    expect(moved!.id).toBe(annas!.id)
    expect((await redeem(moved!.file.download.url)).status).toBe(302)
    expect((await redeem(annas!.file.download.url)).status).toBe(302)
    expect((await api.call(listFilesOfBenefit, { params: { id: benefit.id } })).items).toMatchObject([{ downloads: 5, downloaders: 2 }])
    // After one seat is revoked, the download link of its holder stops working. The link of the other seat holder still works.
    await revokeSeat(anna)
    expect((await redeem(annas!.file.download.url)).status).toBe(410)
    expect((await redeem(bens!.file.download.url)).status).toBe(302)
    await world.database.owner((owner) =>
      owner.query('update members set deleted_at = now() where organization_id = $1 and id = $2', [organization.id, ben.member_id]),
    )
    expect((await redeem(bens!.file.download.url)).status).toBe(410)
  })
})
