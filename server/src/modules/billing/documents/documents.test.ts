import { writeFileSync } from 'node:fs'
import {
  confirmClientCheckout,
  createCheckout,
  createCustomer,
  createCustomerSession,
  createProduct,
  createRefund,
  generateInvoice,
  generatePortalInvoice,
  getCreditNote,
  getInvoice,
  getOrder,
  getPortalCreditNote,
  getPortalInvoice,
  getPortalReceipt,
  getReceipt,
  listOrders,
  listPortalRefunds,
  updateOrder,
  updateOrganization,
  updateSellerIdentity,
  updateTaxSettings,
  type Order,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { giveLogo } from '../../../../test/harness/brands.ts'
import { openDeployment, openLife } from '../../../../test/harness/crashes.ts'
import { readPaper } from '../../../../test/harness/papers.ts'
import { encodePng } from '../../../../test/harness/png.ts'
import { openSales } from '../../../../test/harness/sales.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { formatAmount } from '../../../kernel/money.ts'

let world: World
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  world = await openWorld({ browser: true })
  deployment = await openDeployment(world, openLife(null))
})
afterAll(async () => {
  await deployment.close()
  await world.close()
})

const berlin = { country: 'DE' as const, line1: 'Hauptstraße 1', postal_code: '10115', city: 'Berlin' }
const errorOf = (answer: { status: number; body: unknown }) => `${answer.status} ${(answer.body as { error: string }).error}`

/** Creates a seller in Berlin with tax rates for three countries. */
const open = async () => {
  const shop = await world.shop()
  const { api, organization } = shop
  await api.call(updateOrganization, { params: { id: organization.id }, body: { country: 'DE', default_presentment_currency: 'eur' } })
  const rates = [
    { country: 'DE' as const, rate: '19', reverse_charge: true },
    { country: 'FR' as const, rate: '20', reverse_charge: true },
    { country: 'JP' as const, rate: '10', reverse_charge: false },
  ]
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates } })
  await api.call(updateSellerIdentity, {
    body: { legal_name: 'Acme Software GmbH', address: berlin, tax_id: 'DE136695976', email: 'billing@acme.test', footer: 'HRB 1 Charlottenburg' },
  })
  const buy = async (product: object, buyer: object, choices: object = {}): Promise<Order> => {
    const { id } = await api.call(createProduct, { body: { name: 'Guide', ...product } as never })
    const checkout = await api.call(createCheckout, { body: { products: [id], ...choices } })
    await world.client().call(confirmClientCheckout, {
      params: { client_secret: checkout.client_secret },
      body: { customer_email: 'ada@people.test', confirmation_token_id: 'tok_visa', ...buyer },
    })
    await deployment.work()
    return (await api.call(listOrders, { query: { checkout_id: [checkout.id] } })).items[0]! as unknown as Order
  }
  const fetched = async (url: string, name: string) => {
    const answer = await fetch(url)
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/pdf'])
    const bytes = Buffer.from(await answer.arrayBuffer())
    if (process.env.BURSAR_TEST_PICTURES) writeFileSync(`${process.env.BURSAR_TEST_PICTURES}/${name}.pdf`, bytes)
    return { bytes, ...(await readPaper(bytes)) }
  }
  /** Requests the invoice of an order, renders it and downloads it. */
  const invoice = async (id: string, name: string) => {
    await api.call(generateInvoice, { params: { id } })
    await deployment.work()
    return fetched((await api.call(getInvoice, { params: { id } })).url, name)
  }
  const receipt = async (id: string, name: string) => {
    const first = await api.send(getReceipt, { params: { id } })
    if (first.status === 202) await deployment.work()
    return fetched((await api.call(getReceipt, { params: { id } })).url, name)
  }
  return { ...shop, buy, invoice, receipt, fetched }
}

const fixed = (price_amount: number, price_currency = 'eur') => ({ prices: [{ amount_type: 'fixed', price_amount, price_currency }] })
const plain = (order: Order, amount: number) => formatAmount(amount, order.currency)
/** True if the text contains the amount in the number format of its language. */
const says = (text: string, order: Order, amount: number, decimal = '.') => text.includes(plain(order, amount).replace('.', decimal))

test("responds 404 to a requested invoice until it is rendered, then returns a short-lived link to a file with the order's amounts", async () => {
  const { api, buy, invoice, events } = await open()
  const order = await buy(fixed(2900), { customer_billing_address: { country: 'DE' } })
  expect(order).toMatchObject({ total_amount: 2900, tax_amount: 463, is_invoice_generated: false })
  expect(order.receipt_number).toBe(`RCPT-${order.invoice_number!.split('-').slice(1).join('-')}`)
  const at = { params: { id: order.id } }
  expect(errorOf(await api.send(getInvoice, at))).toBe('404 ResourceNotFound')
  expect(errorOf(await api.send(generateInvoice, at))).toBe('422 MissingInvoiceBillingDetails')
  await api.call(updateOrder, { ...at, body: { billing_name: 'Ada Żółć', billing_address: berlin } })
  const before = (await events('order.updated')).length
  expect((await api.send(generateInvoice, at)).status).toBe(202)
  expect(errorOf(await api.send(getInvoice, at))).toBe('404 ResourceNotFound')
  const paper = await invoice(order.id, 'individual')
  expect((await api.call(getOrder, at)).is_invoice_generated).toBe(true)
  const told = (await events('order.updated')).slice(before)
  expect(told.map(({ data }) => (data as unknown as Order).is_invoice_generated)).toEqual([true])
  for (const words of [
    'Rechnung',
    order.invoice_number!,
    'Acme Software GmbH',
    'USt-IdNr.: DE136695976',
    'Ada Żółć',
    '10115 Berlin',
    'Guide',
    'Visa (Endziffern 0001)',
  ])
    expect(paper.text).toContain(words)
  for (const amount of [order.total_amount, order.tax_amount, order.net_amount]) expect(says(paper.text, order, amount, ',')).toBe(true)
  expect(paper.info).toMatchObject({ Title: `Rechnung ${order.invoice_number}`, Author: 'Acme Software GmbH', Language: 'de' })
  expect(paper.count).toBe(1)
  expect(paper.text).not.toContain('Seite')
  // A second request returns the same bytes and emits no event.
  expect((await invoice(order.id, 'individual')).bytes.equals(paper.bytes)).toBe(true)
  expect((await events('order.updated')).length).toBe(before + 1)
})

test('renders the invoice again after a change of billing details, and keeps all other content; responds 404 until then', async () => {
  const { api, buy, invoice, fetched } = await open()
  const order = await buy(fixed(2900), { customer_billing_name: 'Ada', customer_billing_address: berlin })
  const at = { params: { id: order.id } }
  await api.call(updateOrder, { ...at, body: { billing_name: 'Ada', billing_address: berlin } })
  await invoice(order.id, 'before')
  const changed = await api.call(updateOrder, { ...at, body: { billing_name: '株式会社東京' } })
  expect(changed.is_invoice_generated).toBe(false)
  expect(errorOf(await api.send(getInvoice, at))).toBe('404 ResourceNotFound')
  // The seller moves. Only later sales show the new address.
  await api.call(updateSellerIdentity, { body: { legal_name: 'Elsewhere AG', address: { country: 'CH' } } })
  await deployment.work()
  expect((await api.call(getOrder, at)).is_invoice_generated).toBe(true)
  const { text } = await fetched((await api.call(getInvoice, at)).url, 'after')
  expect(text).toContain('株式会社東京')
  expect(text).toContain('Acme Software GmbH')
  expect(text).not.toContain('Elsewhere')
  // An outdated file is not returned, and a request for it renders it again.
  await world.database.owner((owner) => owner.query(`update documents set checksum = 'of something else' where order_id = $1`, [order.id]))
  expect(errorOf(await api.send(getInvoice, at))).toBe('404 ResourceNotFound')
  await deployment.work()
  expect((await api.send(getInvoice, at)).status).toBe(200)
})

test('shows the seats, the price of each tier, the added tax and the period on the invoice of a team', async () => {
  const { api, buy, invoice } = await open()
  const tiers = [
    { min_seats: 1, max_seats: 5, price_per_seat: 1200 },
    { min_seats: 6, max_seats: null, price_per_seat: 900 },
  ]
  const price = { amount_type: 'seat_based', price_currency: 'eur', tax_behavior: 'exclusive', seat_tiers: { seat_tier_type: 'graduated', tiers } }
  const order = await buy(
    { name: 'Team', recurring_interval: 'month', prices: [price] },
    { customer_name: 'Eva', customer_billing_address: berlin },
    { seats: 12, currency: 'eur' },
  )
  expect(order).toMatchObject({ seats: 12, subtotal_amount: 12_300, currency: 'eur', tax_amount: 2337, total_amount: 14_637 })
  await api.call(updateOrder, {
    params: { id: order.id },
    body: { billing_name: 'Donaudampfschifffahrtsgesellschaft mit einem sehr langen Namen und Söhne GmbH' },
  })
  const { text } = await invoice(order.id, 'team')
  for (const words of ['Team', '12 Plätze', 'Plätze 1 bis 5: 5 × 12,00 €', 'Plätze 6 bis 12: 7 × 9,00 €', '19 %', 'Leistungszeitraum', '146,37 €', '23,37 €'])
    expect(text).toContain(words)
})

test('shows no tax but the reverse-charge note on the invoice of a business abroad', async () => {
  const { buy, invoice } = await open()
  const buyer = {
    customer_name: 'Zoé',
    is_business_customer: true,
    customer_billing_name: 'Café SARL',
    customer_billing_address: { country: 'FR', line1: '1 rue de la Paix', postal_code: '75002', city: 'Paris' },
    customer_tax_id: 'FR40303265045',
  }
  const order = await buy(fixed(10_000), buyer, { currency: 'eur' })
  expect(order).toMatchObject({ tax_amount: 0, total_amount: 10_000 })
  const { text } = await invoice(order.id, 'reverse')
  for (const words of [
    'Café SARL',
    '75002 Paris',
    'France',
    'VAT ID: FR40303265045',
    '€100.00',
    'Reverse charge: the recipient of the service accounts for the VAT.',
  ])
    expect(text).toContain(words)
})

test('lists refunds on the receipt, and creates a numbered credit note for each refund', async () => {
  const { api, buy, receipt, fetched } = await open()
  const order = await buy(fixed(2900), { customer_name: 'Ada', customer_billing_address: { country: 'DE' } })
  const at = { params: { id: order.id } }
  const first = await api.send(getReceipt, at)
  expect([first.status, first.body, first.headers.get('retry-after')]).toEqual([202, '', '1'])
  const before = await receipt(order.id, 'receipt')
  expect(before.text).toContain(order.receipt_number!)
  expect(before.text).not.toContain('Erstattungen')
  const refunds = []
  for (const amount of [1000, 437]) refunds.push(await api.call(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount } }))
  expect((await api.send(getReceipt, at)).status).toBe(202)
  const after = await receipt(order.id, 'refunded')
  const numbers = [1, 2].map((n) => `${order.invoice_number}-C${n}`)
  for (const words of [...numbers, 'Erstattungen', '-11,90', 'Bezahlt nach Erstattungen']) expect(after.text).toContain(words)
  for (const [turn, refund] of refunds.entries()) {
    const note = { params: { id: refund.id } }
    expect((await api.send(getCreditNote, note)).status).toBe(202)
    await deployment.work()
    const { number, url } = await api.call(getCreditNote, note)
    expect(number).toBe(numbers[turn])
    const { text } = await fetched(url, `credit-${turn}`)
    const back = plain(order, refund.amount + refund.tax_amount).replace('.', ',')
    for (const words of ['Rechnungskorrektur', number, order.invoice_number!, `-${back}`, 'Auf Wunsch des Kunden']) expect(text).toContain(words)
  }
  // The customer can download the credit notes too, but not those of other customers.
  const session = async (customer_id: string) => world.client({ token: (await api.call(createCustomerSession, { body: { customer_id } })).token })
  const [me, eve] = [await session(order.customer.id), await session((await api.call(createCustomer, { body: { email: 'eve@people.test' } })).id)]
  const { items } = await me.call(listPortalRefunds, at)
  expect(items).toEqual(
    refunds.map(({ id, created_at, amount, tax_amount, currency }, turn) => ({
      id,
      created_at,
      amount,
      tax_amount,
      currency,
      credit_note_number: numbers[turn],
    })),
  )
  const own = (refund_id: string, id = order.id) => ({ params: { id, refund_id } })
  expect(await me.call(getPortalCreditNote, own(items[1]!.id))).toMatchObject({
    number: numbers[1],
    url: expect.stringContaining('/storage/private/documents/'),
  })
  const another = await buy(fixed(2900), { customer_name: 'Ada', customer_billing_address: { country: 'DE' } }, { customer_id: order.customer.id })
  for (const answer of [
    await me.send(getPortalCreditNote, own(items[0]!.id, another.id)),
    await me.send(getPortalCreditNote, own(order.id)),
    await eve.send(getPortalCreditNote, own(items[0]!.id)),
    await eve.send(listPortalRefunds, at),
  ])
    expect(errorOf(answer)).toBe('404 ResourceNotFound')
  expect(errorOf(await api.send(getCreditNote, at))).toBe('404 ResourceNotFound')
  expect(errorOf(await (await world.shop()).api.send(getCreditNote, { params: { id: refunds[0]!.id } }))).toBe('404 ResourceNotFound')
})

test('prints yen amounts without decimal places, and names in any script', async () => {
  const { api, buy, invoice } = await open()
  const order = await buy(
    {
      name: 'ガイドブック',
      prices: [
        { amount_type: 'fixed', price_amount: 2900, price_currency: 'eur' },
        { amount_type: 'fixed', price_amount: 5500, price_currency: 'jpy' },
      ],
    },
    { customer_name: '東京', customer_billing_address: { country: 'JP', line1: '丸の内1-1-1', city: '千代田区', postal_code: '100-0005' } },
    { currency: 'jpy' },
  )
  expect(order).toMatchObject({ currency: 'jpy', total_amount: 5500, tax_amount: 500 })
  await api.call(updateOrder, { params: { id: order.id }, body: { billing_name: '株式会社東京 · 주식회사 · 有限责任公司 · ООО Ромашка · Ελλάς' } })
  const { text } = await invoice(order.id, 'jpy')
  for (const words of ['ガイドブック', '株式会社東京', '주식회사', '有限责任公司', 'Ромашка', 'Ελλάς', '¥5,500', '¥500', '丸の内'])
    expect(text).toContain(words)
  expect(text).not.toMatch(/5,500\.00/)
})

test('refuses invoices of unpaid orders and receipts without a payment, and responds 404 to other tenants', async () => {
  const { api } = await open()
  const sales = openSales(world)
  const customer = await api.call(createCustomer, { body: { email: 'bob@people.test' } })
  for (const status of ['draft', 'void', 'pending'] as const) {
    const { id } = await sales.order(customer, { status, billing_name: 'Bob', billing_address: { ...berlin, line2: null, state: null } })
    expect([status, errorOf(await api.send(generateInvoice, { params: { id } }))]).toEqual([status, '409 OrderNotEligibleForInvoice'])
    expect(errorOf(await api.send(getReceipt, { params: { id } }))).toBe('404 ResourceNotFound')
  }
  const free = await sales.order(customer, { billing_name: 'Bob', billing_address: { ...berlin, line2: null, state: null }, due_amount: 0, net_amount: 0 })
  expect(errorOf(await api.send(getReceipt, { params: { id: free.id } }))).toBe('404 ResourceNotFound')
  const stranger = (await world.shop()).api
  const me = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: customer.id } })).token })
  const other = await api.call(createCustomer, { body: { email: 'eve@people.test' } })
  const eve = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: other.id } })).token })
  const at = { params: { id: free.id } }
  for (const operation of [generateInvoice, getInvoice, getReceipt]) expect(errorOf(await stranger.send(operation, at))).toBe('404 ResourceNotFound')
  for (const operation of [generatePortalInvoice, getPortalInvoice, getPortalReceipt])
    expect(errorOf(await eve.send(operation, at))).toBe('404 ResourceNotFound')
  expect((await me.send(generatePortalInvoice, at)).status).toBe(202)
  await deployment.work()
  // The order had no invoice number. The request has assigned one.
  expect((await api.call(getOrder, at)).invoice_number).toMatch(/-0001$/)
  expect((await me.call(getPortalInvoice, at)).url).toContain('/storage/private/documents/')
  expect(errorOf(await me.send(getPortalReceipt, at))).toBe('404 ResourceNotFound')
})

test('creates one document under concurrent requests, and numbers credit notes without gaps', async () => {
  const { api, buy, organization } = await open()
  const order = await buy(fixed(2900), { customer_name: 'Ada', customer_billing_address: { country: 'DE' } })
  const at = { params: { id: order.id } }
  expect((await Promise.all(Array.from({ length: 6 }, () => api.send(getReceipt, at)))).map(({ status }) => status)).toEqual(Array(6).fill(202))
  await Promise.all([100, 200, 300].map((amount) => api.call(createRefund, { body: { order_id: order.id, reason: 'other', amount } })))
  await deployment.work()
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ kind: string; number: string | null }>(
      `select kind, facts->'refunds'->0->>'number' as number from documents where organization_id = $1 and kind <> 'receipt' order by 2`,
      [organization.id],
    ),
  )
  expect(rows.map(({ number }) => number)).toEqual([1, 2, 3].map((n) => `${order.invoice_number}-C${n}`))
  const receipts = await world.database.owner((owner) =>
    owner.query(`select from documents where organization_id = $1 and kind = 'receipt'`, [organization.id]),
  )
  expect(receipts.rowCount).toBe(1)
})

test('documents show the logo and the links of the seller, and keep those of their time', async () => {
  const { api, buy, invoice, receipt, fetched, organization } = await open()
  const logo = encodePng({ color: 6, depth: 8, width: 256, height: 256, pixel: (x, y) => [228, x & 255, y & 255, 255] })
  await giveLogo(world, organization.id, logo)
  const links = { terms_url: 'https://acme.example/terms', privacy_url: 'https://acme.example/privacy' }
  const rename = (website: string, email: string) =>
    api.call(updateOrganization, { params: { id: organization.id }, body: { website, email, brand_settings: { ...links, accent_color: '#e4572e' } } })
  await rename('https://www.acme.example/shop', 'help@acme.example')
  const order = await buy(fixed(2900), { customer_name: 'Ada', customer_billing_name: 'Ada', customer_billing_address: berlin })
  const refund = await api.call(createRefund, { body: { order_id: order.id, reason: 'customer_request', amount: 1000 } })
  const credit = async () => {
    await api.send(getCreditNote, { params: { id: refund.id } })
    await deployment.work()
    return fetched((await api.call(getCreditNote, { params: { id: refund.id } })).url, 'brand-credit')
  }
  const papers = [await invoice(order.id, 'brand-invoice'), await receipt(order.id, 'brand-receipt'), await credit()]
  for (const { bytes, text, count } of papers) {
    const file = bytes.toString('latin1')
    for (const part of [
      '/Subtype /Image',
      '/URI (mailto:help@acme.example)',
      '/URI (https://www.acme.example/shop)',
      ...Object.values(links).map((url) => `/URI (${url})`),
    ])
      expect([part, file.includes(part)]).toEqual([part, true])
    for (const words of ['help@acme.example', 'acme.example', 'AGB', 'Datenschutz']) expect(text).toContain(words)
    expect(count).toBe(1)
  }

  // The brand changes, and the files are lost. They are rendered again with the same bytes.
  await giveLogo(world, organization.id, encodePng({ color: 2, depth: 8, width: 64, height: 64, pixel: () => [0, 90, 0, 255] }))
  await rename('https://elsewhere.example', 'other@elsewhere.example')
  await world.database.owner((owner) => owner.query(`update documents set checksum = 'of something else' where order_id = $1`, [order.id]))
  const again = [await invoice(order.id, 'brand-again'), await receipt(order.id, 'brand-again'), await credit()]
  expect(again.map(({ bytes }, at) => bytes.equals(papers[at]!.bytes))).toEqual([true, true, true])
  const later = await buy(fixed(2900), { customer_billing_name: 'Ada', customer_billing_address: berlin })
  expect((await invoice(later.id, 'brand-later')).text).toContain('elsewhere.example')

  // A seller without any of it has documents without it. The billing address is not repeated.
  const plain = await open()
  await plain.api.call(updateOrganization, { params: { id: plain.organization.id }, body: { email: 'billing@acme.test' } })
  const paid = await plain.buy(fixed(2900), { customer_billing_name: 'Ada', customer_billing_address: berlin })
  const paper = await plain.invoice(paid.id, 'plain-invoice')
  expect(['/Subtype /Image', '/URI ('].map((part) => paper.bytes.toString('latin1').includes(part))).toEqual([false, false])
})

test('a document keeps the accent colour that the seller had when it was made', async () => {
  const { api, buy, invoice, organization } = await open()
  const paint = (accent_color: string) => api.call(updateOrganization, { params: { id: organization.id }, body: { brand_settings: { accent_color } } })
  await paint('#1f6feb')
  const order = await buy(fixed(2900), { customer_billing_name: 'Ada', customer_billing_address: berlin })
  const { bytes } = await invoice(order.id, 'coloured')
  await paint('#000000')
  await world.database.owner((owner) => owner.query(`update documents set checksum = 'of something else' where order_id = $1`, [order.id]))
  expect((await invoice(order.id, 'coloured-again')).bytes.equals(bytes)).toBe(true)
})
