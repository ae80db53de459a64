import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { eventually, exchange, type World } from '../../harness/world.ts'
import type { Stage, Story } from '../run.ts'

const address = { country: 'DE' as const }
const text = Buffer.from('What is delivered.\n'.repeat(100))
/** The smallest PNG. */
const picture = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('base64')

/** Uploads, buys and downloads files, and buys, uses and rotates license keys, once with each client. */
export const delivery: Story = async (stage) => {
  const { organization } = await stage.world.shop()
  const token = (await organization.token()).secret.reveal()
  await withCurrent(stage, organization.id, token)
  await withStrict(stage, organization.id, token)
}

interface Part {
  readonly url: string
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** Uploads the bytes of the only part. Returns its ETag. */
const put = async (world: World, { url, headers = {} }: Part, bytes: Buffer): Promise<string> => {
  const { pathname, search } = new URL(url)
  const answer = await exchange(world.port, 'PUT', `${pathname}${search}`, { ...headers }, bytes)
  assert.equal(answer.status, 200, answer.text)
  return answer.headers.get('etag')!
}

const moment = () => new Promise<void>((resolve) => void setTimeout(resolve, 1100))

/** Follows the redirects of a download to its content. */
const download = async (world: World, url: string): Promise<string> => {
  const { pathname } = new URL(url)
  const redirect = await exchange(world.port, 'GET', pathname)
  assert.equal(redirect.status, 302, redirect.text)
  const target = new URL(redirect.headers.get('location')!)
  const answer = await exchange(world.port, 'GET', `${target.pathname}${target.search}`)
  assert.equal(answer.status, 200, answer.text)
  return answer.text
}

/** Buys a product once, and opens a portal session for the buyer. */
const buy = async ({ clients }: Stage, token: string, product_id: string, email: string) => {
  const seller = clients.current(token)
  const made = await seller.checkouts.create({ products: [product_id], customer_email: email, customer_billing_address: address })
  await clients.current('undefined').checkouts.clientConfirm(made.client_secret, { confirmation_token_id: 'tok_visa' })
  const { customer_id } = await eventually('the order exists', async () =>
    (await seller.orders.list({ product_id, limit: 100 })).items.find((one) => one.checkout_id === made.id),
  )
  return { customer_id, session: (await seller.customerSessions.create({ customer_id })).token }
}

const withCurrent = async (stage: Stage, organization_id: string, token: string): Promise<void> => {
  const { world, clients } = stage
  const seller = clients.current(token)
  const whole = (bytes: Buffer) => ({ parts: [{ number: 1, chunk_start: 0, chunk_end: bytes.length, checksum_sha256_base64: sha256(bytes) }] })
  const upload = async (name: string, mime_type: string, service: 'downloadable' | 'product_media' | 'organization_avatar', bytes: Buffer) => {
    const made = await seller.files.create({ name, mime_type, service, size: bytes.length, checksum_sha256_base64: sha256(bytes), upload: whole(bytes) })
    const { id, path, parts } = made.upload
    const checksum_etag = await put(world, parts[0]!, bytes)
    return seller.files.uploaded(made.id, { id, path, parts: [{ number: 1, checksum_etag, checksum_sha256_base64: sha256(bytes) }] })
  }
  const guide = await upload('guide.txt', 'text/plain', 'downloadable', text)
  assert.deepEqual([guide.is_uploaded, guide.size, guide.checksum_sha256_base64], [true, text.length, sha256(text)])
  const cover = await upload('cover.png', 'image/png', 'product_media', picture)
  const spare = await upload('spare.txt', 'text/plain', 'downloadable', text)
  assert.equal((await seller.files.update(guide.id, { name: 'handbook.txt', version: '2' })).name, 'handbook.txt')
  await seller.files.delete(spare.id)
  assert.deepEqual((await seller.files.list({})).items.map(({ id }) => id).toSorted(), [guide.id, cover.id].toSorted())

  const reading = await seller.benefits.create({ type: 'downloadables', description: 'The handbook', properties: { archived: {}, files: [guide.id] } })
  assert.deepEqual(
    (await seller.benefits.files(reading.id)).items.map(({ id }) => id),
    [guide.id],
  )
  const keys = await seller.benefits.create({
    type: 'license_keys',
    description: 'A key',
    properties: { prefix: 'CREW', activations: { limit: 2, enable_customer_admin: true } },
  })
  const product = await seller.products.create({ name: 'Handbook', prices: [{ amount_type: 'fixed', price_amount: 900 }], medias: [cover.id] })
  assert.equal(product.medias[0]!.id, cover.id)
  await seller.products.updateBenefits(product.id, { benefits: [reading.id, keys.id] })
  const { session } = await buy(stage, token, product.id, 'reader@people.test')
  const portal = clients.current(session).customerPortal
  const [mine] = await eventually('the file can be downloaded', async () => {
    const { items } = await portal.downloadables.list({})
    return items.length === 1 ? items : undefined
  })
  assert.equal(await download(world, mine!.file.download.url), text.toString())

  const { items } = await eventually('the license key exists', async () => {
    const page = await portal.licenseKeys.list({})
    return page.items.length === 1 ? page : undefined
  })
  const { id, key } = (await portal.licenseKeys.get(items[0]!.id)) as { id: string; key: string }
  assert.match(key, /^CREW-[0-9A-F]{8}-/)
  const open = clients.current('undefined').customerPortal.licenseKeys
  const active = await open.activate({ key, organization_id, label: 'Desk', conditions: { major: 1 } })
  // The rate limit is three requests a second per address.
  await moment()
  const valid = await open.validate({ key, organization_id, activation_id: active.id, conditions: { major: 1 } })
  assert.equal(valid.status, 'granted')
  await open.deactivate({ key, organization_id, activation_id: active.id })
  const again = await seller.licenseKeys.activate({ key, organization_id, label: 'Lap' })
  assert.equal((await seller.licenseKeys.getActivation(id, again.id)).label, 'Lap')
  assert.equal((await seller.licenseKeys.validate({ key, organization_id, activation_id: again.id })).activation?.id, again.id)
  await seller.licenseKeys.deactivate({ key, organization_id, activation_id: again.id })
  assert.equal((await seller.licenseKeys.update(id, { limit_usage: 5 })).limit_usage, 5)
  await seller.licenseKeys.rotate(id)
  await portal.licenseKeys.rotate(id)
  assert.notEqual((await seller.licenseKeys.get(id)).key, key)
  assert.equal((await seller.licenseKeys.list({ benefit_id: keys.id })).items.length, 1)
}

const withStrict = async (stage: Stage, organizationId: string, token: string): Promise<void> => {
  const { world, clients } = stage
  const seller = clients.strict(token)
  const made = await seller.files.create({
    name: 'notes.txt',
    mimeType: 'text/plain',
    service: 'downloadable',
    size: text.length,
    checksumSha256Base64: sha256(text),
    upload: { parts: [{ number: 1, chunkStart: 0, chunkEnd: text.length, checksumSha256Base64: sha256(text) }] },
  })
  const { id: uploadId, path, parts } = made.upload
  const checksumEtag = await put(world, parts[0]!, text)
  const file = await seller.files.uploaded({
    id: made.id,
    fileUploadCompleted: { id: uploadId, path, parts: [{ number: 1, checksumEtag, checksumSha256Base64: sha256(text) }] },
  })
  assert.equal(file.isUploaded, true)
  await seller.files.update({ id: made.id, filePatch: { version: '1' } })
  const listed: string[] = []
  for await (const { result } of await seller.files.list({})) listed.push(...result.items.map(({ id }) => id))
  assert.ok(listed.includes(made.id))

  const reading = await seller.benefits.create({ type: 'downloadables', description: 'The notes', properties: { archived: {}, files: [made.id] } })
  const keys = await seller.benefits.create({
    type: 'license_keys',
    description: 'Another key',
    properties: { prefix: 'CLUB', activations: { limit: 1, enableCustomerAdmin: false } },
  })
  const product = await seller.products.create({ name: 'Notes', prices: [{ amountType: 'fixed', priceAmount: 500 }] })
  await seller.products.updateBenefits({ id: product.id, productBenefitsUpdate: { benefits: [reading.id, keys.id] } })
  const bought = await buy(stage, token, product.id, 'writer@people.test')
  const session = { memberSession: bought.session }
  const mine = await eventually('the file can be downloaded', async () => {
    for await (const { result } of await seller.customerPortal.downloadables.list(session, {})) return result.items[0]
    return undefined
  })
  assert.equal(await download(world, mine.file.download.url), text.toString())
  const found = await eventually('the license key exists', async () => {
    for await (const { result } of await seller.customerPortal.licenseKeys.list(session, {})) return result.items[0]
    return undefined
  })
  const { id, key } = await seller.customerPortal.licenseKeys.get(session, { id: found.id })
  assert.match(key, /^CLUB-/)
  await moment()
  const open = seller.customerPortal.licenseKeys
  const active = await open.activate({ key, organizationId, label: 'Desk' })
  await open.validate({ key, organizationId, activationId: active.id })
  await open.deactivate({ key, organizationId, activationId: active.id })
  const again = await seller.licenseKeys.activate({ key, organizationId, label: 'Lap' })
  assert.equal((await seller.licenseKeys.getActivation({ id, activationId: again.id })).label, 'Lap')
  await seller.licenseKeys.validate({ key, organizationId })
  await seller.licenseKeys.deactivate({ key, organizationId, activationId: again.id })
  await seller.licenseKeys.update({ id, licenseKeyUpdate: { usage: 0, limitUsage: 3 } })
  assert.equal((await seller.licenseKeys.get({ id })).limitUsage, 3)
  const all: string[] = []
  for await (const { result } of await seller.licenseKeys.list({ benefitId: keys.id })) all.push(...result.items.map((one) => one.id))
  assert.deepEqual(all, [id])
  await seller.files.delete({ id: made.id })
}
