import { randomBytes } from 'node:crypto'
import {
  completeFile,
  createBenefit,
  createFile,
  createProduct,
  deleteFile,
  getBenefit,
  getOrganization,
  getProduct,
  listFiles,
  listFilesOfBenefit,
  updateBenefit,
  updateFile,
  updateOrganization,
  updateProduct,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { announce, announcement, pictures, putPart, putParts, sha256, smallestPart, stores, storeSettings, upload } from '../../../../test/harness/stores.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { typeOf } from '../../../kernel/pictures.ts'

const nobody = '6f1c3f5e-0000-4000-8000-000000000000'
const png = pictures['image/png']!
const picture = { service: 'product_media', name: 'box.png', mime_type: 'image/png' } as const

describe.each(stores)('files on %s', (store) => {
  let world: World
  let deployment: Awaited<ReturnType<typeof openDeployment>>
  beforeAll(async () => {
    world = await openWorld({ browser: true, settings: await storeSettings(store) })
    deployment = await openDeployment(world, openLife(null))
  })
  afterAll(async () => {
    await deployment.close()
    await world.close()
  })

  const bucketOf = (file: { service: string }) => {
    const { storage } = world.api.gateways
    return file.service === 'downloadable' ? storage.private : storage.public
  }
  const isThere = async (file: { service: string; path: string }) => (await bucketOf(file).head(file.path)) !== undefined
  const openUploads = async (file: { service: string; path: string }) =>
    (await bucketOf(file).listUploads({ prefix: file.path.slice(0, file.path.lastIndexOf('/') + 1), limit: 100 })).uploads
  const tend = () => deployment.sweep('catalog.tend_files')
  const rowOf = async (id: string) => {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ state: string; problem: string | null; due_at: Date | null; deleted_at: Date | null }>(
        'select state, problem, due_at, deleted_at from files where id = $1',
        [id],
      ),
    )
    return rows[0]!
  }
  const makeDue = (id: string) => world.database.owner((owner) => owner.query(`update files set due_at = $2 where id = $1`, [id, world.clock.wall()]))
  const where = (answer: { body: unknown }) => (answer.body as { detail: { loc: unknown[]; msg: string }[] }).detail[0]!.loc.join('.')
  const why = (answer: { body: unknown }) => (answer.body as { detail: { msg: string }[] }).detail[0]!.msg

  test('announces a multipart file, uploads parts in any order, completes, lists, renames and deletes it [S1-17] [S4-08]', async () => {
    const { api, organization } = await world.shop()
    const bytes = randomBytes(2 * smallestPart + 1000)
    const ends = [smallestPart, 2 * smallestPart, bytes.length]
    const cut = ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end))
    const announced = await announce(api, bytes, { name: 'Größe ß.pdf', version: '1.0', ends, checksums: cut.map(sha256) })
    expect(announced).toMatchObject({
      organization_id: organization.id,
      is_uploaded: false,
      name: 'Größe ß.pdf',
      version: '1.0',
      size: bytes.length,
      size_readable: '10.0 MB',
      checksum_etag: null,
      last_modified_at: null,
      path: `downloadable/${organization.id}/${announced.id}/Gro-e.pdf`,
      upload: { path: announced.path, parts: [{ number: 1, chunk_start: 0, chunk_end: smallestPart }, { number: 2 }, { chunk_end: bytes.length }] },
    })
    const life = Date.parse(announced.upload.parts[0]!.expires_at) - world.clock.wall().getTime()
    expect(life).toBeGreaterThan(3_500_000)
    expect(life).toBeLessThanOrEqual(3_600_000)
    const body = await putParts(announced, bytes)
    expect((await api.call(listFiles, {})).items).toEqual([])
    const complete = () => api.call(completeFile, { params: { id: announced.id }, body: { ...body, parts: body.parts.toReversed() } })
    const file = await complete()
    expect(file).toMatchObject({
      id: announced.id,
      service: 'downloadable',
      is_uploaded: true,
      checksum_sha256_base64: sha256(bytes),
      checksum_sha256_hex: Buffer.from(sha256(bytes), 'base64').toString('hex'),
      flagged_malicious_at: null,
    })
    expect(file.checksum_etag).toMatch(/-3$/)
    expect(file.last_modified_at).not.toBeNull()
    // A client that did not receive the answer can repeat the completion.
    expect(await complete()).toEqual(file)
    expect((await api.call(listFiles, {})).items).toEqual([file])
    const patch = (wanted: object) => api.call(updateFile, { params: { id: file.id }, body: wanted })
    expect(await patch({ name: 'Renamed.pdf', version: null })).toMatchObject({ name: 'Renamed.pdf', version: '1.0', path: file.path })
    expect(await patch({ name: ' ', version: '2.0' })).toMatchObject({ name: 'Renamed.pdf', version: '2.0' })
    expect(await isThere(file)).toBe(true)
    const gone = await api.send(deleteFile, { params: { id: file.id } })
    expect([gone.status, gone.body]).toEqual([204, ''])
    expect((await api.call(listFiles, {})).items).toEqual([])
    for (const again of [deleteFile, updateFile] as const)
      expect((await api.sendRaw(again, { params: { id: file.id }, ...(again === updateFile ? { body: { name: 'x' } } : {}) })).status).toBe(404)
    // The sweep deletes the object after the commit.
    expect(await isThere(file)).toBe(true)
    await tend()
    expect(await isThere(file)).toBe(false)
    expect(await rowOf(file.id)).toMatchObject({ due_at: null })
  })

  test('rejects a deletion without permission (403), of an unknown file (404) and with an invalid id (422) [S4-09] [S4-10] [S4-11]', async () => {
    const { api, organization } = await world.shop()
    const file = await upload(api, Buffer.from('kept'))
    const person = await world.person()
    await world.join(organization.id, person.id, 'finance')
    const colleague = world.client({ token: (await person.token()).secret })
    const remove = (client: typeof api, id: string) => client.sendRaw(deleteFile, { params: { id } })
    expect(await remove(colleague, file.id)).toMatchObject({
      status: 403,
      body: { error: 'NotPermitted', detail: expect.stringContaining('finance') as string },
    })
    const reader = world.client({ token: (await organization.token(['files:read'])).secret })
    expect((await remove(reader, file.id)).status).toBe(403)
    const stranger = await world.shop()
    for (const [client, id] of [
      [api, nobody],
      [stranger.api, file.id],
    ] as const)
      expect(await remove(client, id)).toMatchObject({ status: 404, body: { error: 'ResourceNotFound', detail: expect.any(String) as string } })
    expect(await remove(api, 'no-id')).toMatchObject({ status: 422, body: { detail: [{ loc: ['path', 'id'] }] } })
    expect((await api.call(listFiles, {})).items.map(({ id }) => id)).toEqual([file.id])
    expect((await stranger.api.call(listFiles, {})).items).toEqual([])
  })

  test('rejects an invalid file announcement with the location of the problem', async () => {
    const { api } = await world.shop()
    const bytes = Buffer.from('something')
    const refused = async (changes: object) => {
      const answer = await api.sendRaw(createFile, { body: { ...announcement(bytes), ...changes } })
      expect(answer.status, JSON.stringify(answer.body)).toBe(422)
      return where(answer).replace('downloadable.', '').replace('product_media.', '')
    }
    expect(await refused({ name: '../../etc/passwd' })).toBe('body.name')
    expect(await refused({ size: 10 })).toMatch(/^body\.upload\.parts/)
    expect(await refused({ ...picture, mime_type: 'text/html' })).toBe('body.mime_type')
    expect(await refused({ service: 'support_case_attachment', mime_type: 'text/plain' })).toBe('body.service')
    expect(await refused({ checksum_sha256_base64: 'abc' })).toBe('body.checksum_sha256_base64')
  })

  test('verifies the type of images, serves them publicly, and serves SVG only as an attachment', async () => {
    const { api } = await world.shop()
    for (const [mime_type, bytes] of Object.entries(pictures)) {
      expect(typeOf(bytes)).toBe(mime_type)
      const file = (await upload(api, bytes, { service: 'product_media', name: 'picture', mime_type })) as { public_url: string }
      const seen = await fetch(file.public_url)
      expect([seen.status, Buffer.from(await seen.arrayBuffer()).equals(bytes)]).toEqual([200, true])
      const saved = (seen.headers.get('content-disposition') ?? '').startsWith('attachment')
      expect([mime_type, saved]).toEqual([mime_type, mime_type === 'image/svg+xml'])
    }
    for (const [said, bytes] of [
      ['image/png', pictures['image/svg+xml']!],
      ['image/svg+xml', Buffer.from('<html><svg></svg></html>')],
      ['image/svg+xml', Buffer.from([0x3c, 0x73, 0x76, 0x67, 0x20, 0xff, 0xfe])],
      ['image/jpeg', Buffer.from('MZ not a picture')],
    ] as const) {
      const announced = await announce(api, bytes, { ...picture, mime_type: said })
      const body = await putParts(announced, bytes)
      const complete = () => api.sendRaw(completeFile, { params: { id: announced.id }, body })
      const answer = await complete()
      expect([answer.status, where(answer)]).toEqual([422, 'body.parts'])
      expect(why(answer)).toContain(said)
      expect(why(await complete())).toBe(why(answer))
      await tend()
      expect(await isThere(announced)).toBe(false)
    }
    expect((await api.call(listFiles, { query: { service: 'product_media' } })).items).toHaveLength(5)
    expect((await api.call(listFiles, { query: { service: 'downloadable' } })).items).toEqual([])
  })

  test('a product shows its media in order, and a deleted file is removed from them', async () => {
    const { api, events } = await world.shop()
    const stranger = await world.shop()
    const [a, b] = [await upload(api, png, picture), await upload(api, png, { ...picture, name: 'other.png' })]
    const foreign = await upload(stranger.api, png, picture)
    const wrongKind = await upload(api, Buffer.from('x'))
    const unsent = await announce(api, png, picture)
    const prices = [{ amount_type: 'fixed' as const, price_amount: 1000 }]
    const product = await api.call(createProduct, { body: { name: 'Plan', prices, medias: [b.id, a.id] } })
    expect(product.medias).toEqual([b, a])
    expect(await api.call(getProduct, { params: { id: product.id } })).toEqual(product)
    for (const id of [foreign.id, wrongKind.id, unsent.id, nobody]) {
      const answer = await api.sendRaw(updateProduct, { params: { id: product.id }, body: { medias: [a.id, id] } })
      expect([answer.status, where(answer)]).toEqual([422, 'body.medias.1'])
      expect((await api.sendRaw(createProduct, { body: { name: 'Plan', prices, medias: [id] } })).status).toBe(422)
    }
    const medias = async () => (await api.call(getProduct, { params: { id: product.id } })).medias.map(({ id }) => id)
    const set = (wanted: string[] | null) => api.call(updateProduct, { params: { id: product.id }, body: { medias: wanted } })
    await set([a.id, b.id])
    await set(null)
    expect(await medias()).toEqual([a.id, b.id])
    await api.call(deleteFile, { params: { id: a.id } })
    expect(await medias()).toEqual([b.id])
    expect((await events('product.updated')).at(-1)!.data).toMatchObject({ id: product.id, medias: [{ id: b.id }] })
    await set([])
    expect(await medias()).toEqual([])
  })

  test('an organization shows its avatar until the file is deleted', async () => {
    const { api, organization, events } = await world.shop()
    const file = await upload(api, png, { service: 'organization_avatar', name: 'logo.png', mime_type: 'image/png' })
    const { public_url } = file as { public_url: string }
    const params = { id: organization.id }
    await api.call(updateOrganization, { params, body: { avatar_url: public_url } })
    expect((await api.call(getOrganization, { params })).avatar_url).toBe(public_url)
    await api.call(deleteFile, { params: { id: file.id } })
    expect((await api.call(getOrganization, { params })).avatar_url).toBeNull()
    expect((await events('organization.updated')).at(-1)!.data).toMatchObject({ avatar_url: null })
  })

  test('a benefit accepts only uploaded downloadable files of its seller, lists them in order, and drops deleted files [S1-16]', async () => {
    const { api, events } = await world.shop()
    const stranger = await world.shop()
    const [a, b, c] = [await upload(api, Buffer.from('a')), await upload(api, Buffer.from('b')), await upload(api, Buffer.from('c'))]
    const foreign = await upload(stranger.api, Buffer.from('x'))
    const media = await upload(api, png, picture)
    const unsent = await announce(api, Buffer.from('never sent'))
    const body = (files: string[], archived: Record<string, boolean> = {}) => ({
      type: 'downloadables' as const,
      description: 'The album',
      properties: { files, archived },
    })
    for (const id of [foreign.id, media.id, unsent.id, nobody]) {
      const answer = await api.sendRaw(createBenefit, { body: body([a.id, id]) })
      expect([answer.status, where(answer)]).toEqual([422, 'body.properties.files.1'])
    }
    const benefit = await api.call(createBenefit, { body: body([b.id, a.id, b.id], { [a.id]: true, [nobody]: true }) })
    expect(benefit).toMatchObject({ visibility_configurable: false, properties: { files: [b.id, a.id], archived: { [a.id]: true } } })
    const params = { id: benefit.id }
    const files = async (query: object = {}) => (await api.call(listFilesOfBenefit, { params, query })).items
    expect(await files()).toEqual([b, a].map((file) => ({ ...file, downloads: 0, downloaders: 0 })))
    expect((await files({ page: 2, limit: 1 })).map(({ id }) => id)).toEqual([a.id])
    const wrongly = await api.sendRaw(updateBenefit, { params, body: body([foreign.id]) })
    expect([wrongly.status, where(wrongly)]).toEqual([422, 'body.properties.files.0'])
    await api.call(updateBenefit, { params, body: body([c.id, a.id, b.id]) as never })
    expect((await files()).map(({ id }) => id)).toEqual([c.id, a.id, b.id])
    await api.call(deleteFile, { params: { id: a.id } })
    expect(await api.call(getBenefit, { params })).toMatchObject({ properties: { files: [c.id, b.id], archived: {} } })
    expect((await files()).map(({ id }) => id)).toEqual([c.id, b.id])
    expect((await events('benefit.updated')).at(-1)!.data).toMatchObject({ id: benefit.id, properties: { files: [c.id, b.id] } })
    const note = await api.call(createBenefit, { body: { type: 'custom', description: 'A note', properties: {} } })
    expect((await api.call(listFilesOfBenefit, { params: { id: note.id } })).items).toEqual([])
    for (const client of [stranger.api, api])
      expect((await client.sendRaw(listFilesOfBenefit, { params: { id: client === api ? nobody : benefit.id } })).status).toBe(404)
  })

  test('adding a file to a benefit while the file is deleted never leaves a deleted file in the benefit', async () => {
    const { api } = await world.shop()
    for (let round = 0; round < 5; round++) {
      const [kept, contested] = [await upload(api, Buffer.from('kept')), await upload(api, Buffer.from('contested'))]
      const benefit = await api.call(createBenefit, { body: { type: 'downloadables', description: 'Album', properties: { files: [kept.id] } } })
      const take = () =>
        api.send(updateBenefit, {
          params: { id: benefit.id },
          body: { type: 'downloadables', properties: { files: [kept.id, contested.id], archived: {} } } as never,
        })
      const [removed, taken] = await Promise.all([api.send(deleteFile, { params: { id: contested.id } }), take()])
      expect(removed.status).toBe(204)
      expect([200, 422]).toContain(taken.status)
      expect(await api.call(getBenefit, { params: { id: benefit.id } })).toMatchObject({ properties: { files: [kept.id] } })
      const { items } = await api.call(listFilesOfBenefit, { params: { id: benefit.id } })
      expect(items.map(({ id }) => id)).toEqual([kept.id])
    }
  })

  test('rejects completing an upload under an id or path other than its own', async () => {
    const { api } = await world.shop()
    const neighbour = await world.shop()
    const bytes = Buffer.from('ours')
    const [ours, theirs] = [await announce(api, bytes), await announce(neighbour.api, Buffer.from('theirs'))]
    const [body, their] = [await putParts(ours, bytes), await putParts(theirs, Buffer.from('theirs'))]
    const place = async (changes: object) => {
      const answer = await api.sendRaw(completeFile, { params: { id: ours.id }, body: { ...body, ...changes } })
      expect(answer.status, JSON.stringify(answer.body)).toBe(422)
      return where(answer)
    }
    const elsewhere = ours.path.replace('guide', 'other')
    for (const path of [theirs.path, elsewhere, `../${ours.path}`]) expect([path, await place({ path })]).toEqual([path, 'body.path'])
    for (const id of [theirs.upload.id, 'x']) expect([id, await place({ id })]).toEqual([id, 'body.id'])
    expect(await place({ id: theirs.upload.id, path: theirs.path })).toBe('body.id')
    expect(await place({ parts: [{ number: 1, checksum_etag: their.parts[0]!.checksum_etag }] })).toBe('body.parts')
    for (const file of [ours, theirs]) expect(await isThere(file)).toBe(false)
    expect(await api.call(completeFile, { params: { id: ours.id }, body })).toMatchObject({ is_uploaded: true, path: ours.path })
    expect(await neighbour.api.call(completeFile, { params: { id: theirs.id }, body: their })).toMatchObject({ is_uploaded: true, path: theirs.path })
    expect((await bucketOf(ours).list({ prefix: ours.path.slice(0, ours.path.lastIndexOf('/') + 1), limit: 10 })).objects.map(({ key }) => key)).toEqual([
      ours.path,
    ])
  })

  test('abandons an incomplete upload after a day and removes all its parts', async () => {
    const { api } = await world.shop()
    const bytes = randomBytes(smallestPart + 10)
    const announced = await announce(api, bytes, { ends: [smallestPart, bytes.length] })
    expect((await putPart(announced.upload.parts[0]!, bytes.subarray(0, smallestPart))).status).toBe(200)
    const { due_at } = await rowOf(announced.id)
    expect(Math.abs(due_at!.getTime() - world.clock.wall().getTime() - 24 * 3_600_000)).toBeLessThan(60_000)
    await tend()
    expect(await openUploads(announced)).toHaveLength(1)
    await makeDue(announced.id)
    await tend()
    await tend()
    expect(await openUploads(announced)).toEqual([])
    expect(await rowOf(announced.id)).toMatchObject({ due_at: null, deleted_at: expect.any(Date) as Date })
    expect((await putPart(announced.upload.parts[1]!, bytes.subarray(smallestPart))).status).toBeGreaterThanOrEqual(400)
    const late = await api.sendRaw(completeFile, {
      params: { id: announced.id },
      body: { id: announced.upload.id, path: announced.path, parts: [{ number: 1, checksum_etag: 'x' }] },
    })
    expect(late.status).toBe(404)
  })

  test('announcing a file again with the same idempotency key returns the same upload', async () => {
    const { api, organization } = await world.shop()
    const again = world.client({ token: (await organization.token()).secret }, { 'idempotency-key': newId(world.clock.wall()) })
    const bytes = Buffer.from('once')
    const [first, second] = [await announce(again, bytes), await announce(again, bytes)]
    expect(second).toEqual(first)
    expect(await openUploads(first)).toHaveLength(1)
    expect(await api.call(completeFile, { params: { id: first.id }, body: await putParts(second, bytes) })).toMatchObject({ is_uploaded: true })
  })

  test('if a crash follows the completion at the store, a repeated request or the sweep finishes the upload', async () => {
    const { api } = await world.shop()
    const bytes = Buffer.from('interrupted')
    const announced = await announce(api, bytes)
    const body = await putParts(announced, bytes)
    // The store has completed the object, but its answer was lost.
    await bucketOf(announced).completeUpload({
      key: announced.path,
      upload_id: announced.upload.id,
      parts: [{ number: 1, etag: body.parts[0]!.checksum_etag, checksum_sha256_base64: null }],
    })
    expect(await api.call(completeFile, { params: { id: announced.id }, body })).toMatchObject({ is_uploaded: true })
    const other = await announce(api, bytes)
    const report = await putParts(other, bytes)
    await bucketOf(other).completeUpload({
      key: other.path,
      upload_id: other.upload.id,
      parts: [{ number: 1, etag: report.parts[0]!.checksum_etag, checksum_sha256_base64: null }],
    })
    await world.database.owner((owner) => owner.query(`update files set state = 'verifying', due_at = $2 where id = $1`, [other.id, world.clock.wall()]))
    await tend()
    expect(await rowOf(other.id)).toMatchObject({ state: 'ready', due_at: null })
    expect(await api.call(completeFile, { params: { id: other.id }, body: report })).toMatchObject({ is_uploaded: true, checksum_sha256_base64: sha256(bytes) })
  })

  test('a rolled-back deletion of a file keeps the stored object, which is removed only after a commit', async () => {
    const { api } = await world.shop()
    const file = await upload(api, Buffer.from('precious'))
    await world.database.owner(async (owner) => {
      await owner.query(`create function refuse_${store}() returns trigger language plpgsql as $$ begin raise exception 'no room for the log'; end $$`)
      await owner.query(
        `create constraint trigger refuse_${store} after update on files deferrable initially deferred for each row when (new.id = '${file.id}' and new.deleted_at is not null) execute function refuse_${store}()`,
      )
    })
    expect((await api.sendRaw(deleteFile, { params: { id: file.id } })).status).toBe(500)
    await tend()
    expect(await isThere(file), 'the object of a file that was not deleted').toBe(true)
    expect((await api.call(listFiles, {})).items).toEqual([file])
    await world.database.owner((owner) => owner.query(`drop trigger refuse_${store} on files`))
    expect((await api.send(deleteFile, { params: { id: file.id } })).status).toBe(204)
    await tend()
    expect(await isThere(file)).toBe(false)
  })
})

test('file requests get 503 with the cause during a storage outage, and the sweep retries pending deletions later', async () => {
  const world = await openWorld({
    settings: {
      BURSAR_STORAGE_DIR: '',
      BURSAR_S3_BUCKET: 'absent',
      BURSAR_S3_PUBLIC_BUCKET: 'absent-public',
      BURSAR_S3_ENDPOINT: 'http://127.0.0.1:9',
      BURSAR_S3_ACCESS_KEY_ID: 'x',
      BURSAR_S3_SECRET_ACCESS_KEY: 'y',
    },
  })
  const deployment = await openDeployment(world, openLife(null))
  const { api } = await world.shop()
  const answer = await api.sendRaw(createFile, { body: announcement(Buffer.from('x')) })
  expect(answer).toMatchObject({ status: 503, body: { error: 'ServiceUnavailable', detail: expect.stringContaining('storage') as string } })
  const due = () => world.database.owner(async (owner) => (await owner.query<{ id: string; due_at: Date }>('select id, due_at from files')).rows)
  await world.database.owner((owner) => owner.query('update files set deleted_at = $1, due_at = $1', [world.clock.wall()]))
  await expect(deployment.sweep('catalog.tend_files')).rejects.toThrow()
  expect((await due())[0]!.due_at.getTime()).toBeGreaterThan(world.clock.wall().getTime() + 50_000)
  await deployment.close()
  await world.close()
})

test('file requests get 503 with a message that storage is not set up, if no storage is configured', async () => {
  const world = await openWorld({ settings: { BURSAR_STORAGE_DIR: '' } })
  const { api } = await world.shop()
  const answer = await api.sendRaw(createFile, { body: announcement(Buffer.from('x')) })
  expect(answer).toMatchObject({ status: 503, body: { error: 'ServiceUnavailable', detail: expect.stringContaining('configure the storage') as string } })
  await world.close()
})
