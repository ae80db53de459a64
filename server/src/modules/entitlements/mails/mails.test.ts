import { createBenefit, createProduct, getCustomer, listLicenseKeys, updateOrganization } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEntitlements, type Entitlements } from '../../../../test/harness/entitlements.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { jobs } from '../../../main/wire.ts'
import { RunLater } from '../../../platform/jobs/later.ts'
import { mailOrder } from './mails.ts'

let world: World
let people: Entitlements
beforeAll(async () => {
  world = await openWorld()
  people = await openEntitlements(world)
})
afterAll(async () => {
  await people.close()
  await world.close()
})

type Shop = Awaited<ReturnType<Entitlements['open']>>

const lettersTo = (to: string) => world.mail.letters.filter((letter) => letter.to === to)

/** Sends the waiting mails. */
const post = async (): Promise<void> => {
  for (;;) {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ name: string; payload: never }>(
        `with gone as (delete from graphile_worker._private_jobs j using graphile_worker._private_tasks t
           where t.id = j.task_id and t.identifier like 'mail.%' returning t.identifier as name, j.payload) select * from gone`,
      ),
    )
    if (rows.length === 0) return
    for (const { name, payload } of rows) await jobs.find((job) => job.name === name)!.run(people.deployment.deps, payload)
  }
}

/** Returns the only mail to the buyer. */
const mailTo = async (shop: Shop, customer_id: string) => {
  await post()
  const { email } = await shop.api.call(getCustomer, { params: { id: customer_id } })
  const letters = lettersTo(email!)
  expect(letters.map(({ subject }) => subject)).toHaveLength(1)
  return letters[0]!
}

const ownerOf = async (shop: Shop) =>
  (
    await world.database.owner((owner) =>
      owner.query<{ email: string }>(
        `select u.email from users u join organization_members m on m.user_id = u.id where m.organization_id = $1 and m.role = 'owner'`,
        [shop.organization.id],
      ),
    )
  ).rows[0]!.email

const keyBenefit = (shop: Shop) => shop.api.call(createBenefit, { body: { type: 'license_keys', description: 'Desktop app', properties: { prefix: 'ACME' } } })

test('the receipt of a purchase has its license key, in the language of the buyer, and the people of the seller are mailed once', async () => {
  const shop = await people.open()
  const product = await shop.product([await keyBenefit(shop)], { recurring: false })
  const { customer_id, order_id } = await shop.buy(product.id)
  const { text, html, subject } = await mailTo(shop, customer_id)
  const [key] = (await shop.api.call(listLicenseKeys, {})).items
  expect(subject).toMatch(/^Ihr Beleg von /)
  for (const part of [text, html]) {
    expect(part).toContain(key!.key)
    expect(part).toContain(`/portal/orders/${order_id!}/receipt`)
  }
  expect(text).toContain('Das erhalten Sie\n- Desktop app')
  expect(lettersTo(await ownerOf(shop)).map((letter) => letter.subject)).toEqual([expect.stringMatching(/^New order: /)])
})

test('a purchase of a subscription is confirmed by one mail, and the seller can switch its own mail off', async () => {
  const shop = await people.open()
  const settings = { notification_settings: { new_order: true, new_subscription: false } }
  await shop.api.call(updateOrganization, { params: { id: shop.organization.id }, body: settings })
  const product = await shop.product([await keyBenefit(shop)])
  const { customer_id } = await shop.buy(product.id)
  expect((await mailTo(shop, customer_id)).subject).toMatch(/^Ihr Abonnement bei /)
  expect(lettersTo(await ownerOf(shop))).toEqual([])
})

test('a purchase at no cost is confirmed', async () => {
  const shop = await people.open()
  const free = await shop.api.call(createProduct, { body: { name: 'Gift', prices: [{ amount_type: 'fixed', price_amount: 0 }] } })
  const { customer_id } = await shop.buy(free.id)
  const { text } = await mailTo(shop, customer_id)
  expect(text).toContain('Gift')
  expect(text).toContain('Es ist nichts zu bezahlen.')
})

test('a receipt waits for license keys that are being prepared, at most 30 seconds', async () => {
  const shop = await people.open()
  const product = await shop.product([await keyBenefit(shop)], { recurring: false })
  const { customer_id, order_id } = await shop.buy(product.id)
  await mailTo(shop, customer_id)
  await world.database.owner((owner) => owner.query('update benefit_grants set granted_at = null where order_id = $1', [order_id]))
  const about = { organization_id: shop.organization.id, order_id: order_id! }
  await expect(mailOrder(people.deployment.deps, about)).rejects.toThrow(RunLater)
  world.clock.advance(31_000)
  await mailOrder(people.deployment.deps, about)
  const { email } = await shop.api.call(getCustomer, { params: { id: customer_id } })
  expect(lettersTo(email!).at(-1)!.text).toContain('Weiteres wird für Sie vorbereitet.')
})
