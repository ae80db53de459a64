// A shop in Hono. It identifies a visitor by a cookie. Bursar stores that id as external customer id and finds the customer by it.
import { randomUUID } from 'node:crypto'
import { serve } from '@hono/node-server'
import { Webhooks } from '@polar-sh/hono'
import { createPolar } from '@polar-sh/sdk/2026-04'
import { Hono, type Context } from 'hono'
import { getCookie, setCookie } from 'hono/cookie'
import { html } from 'hono/html'

const needed = (name: string): string => {
  const value = process.env[name]
  if (!value) throw new Error(`Set ${name}: README.md says how to get it.`)
  return value
}

const port = Number(process.env.PORT ?? 4330)
const home = `http://127.0.0.1:${port}`
const bursar = createPolar({ baseUrl: needed('BURSAR'), accessToken: needed('TOKEN') })

/** Paid orders by order id, so that a repeated event changes nothing. A real shop stores them in its database. */
const paid = new Map<string, { visitor: string | null | undefined; product: string }>()

const boughtBy = (visitor: string) => [...paid.values()].filter((one) => one.visitor === visitor)

/** Identifies the visitor by the cookie alone. A real shop has accounts and a sign-in. */
const visitorOf = (c: Context): string => {
  const visitor = getCookie(c, 'visitor') ?? randomUUID()
  setCookie(c, 'visitor', visitor, { httpOnly: true, sameSite: 'Lax', path: '/' })
  return visitor
}

const app = new Hono()

app.get('/', async (c) => {
  const visitor = visitorOf(c)
  const { items } = await bursar.products.list({ is_archived: false })
  return c.html(
    html`<!doctype html>
      <html lang="en">
        <title>Shop</title>
        <h1>Shop</h1>
        <ul>
          ${items.map(({ id, name }) => html`<li>${name} <a href="/buy?product=${id}">Buy</a></li>`)}
        </ul>
        ${boughtBy(visitor).map(({ product }) => html`<p>You have bought: ${product}</p>`)}
        <p><a href="/portal">Your orders</a></p>
      </html>`,
  )
})

app.get('/buy', async (c) => {
  const product = c.req.query('product')
  if (!product) return c.redirect('/')
  const { url } = await bursar.checkouts.create({ products: [product], external_customer_id: visitorOf(c), success_url: home })
  return c.redirect(url)
})

app.get('/portal', async (c) => {
  const visitor = visitorOf(c)
  // A visitor becomes a customer with the first purchase.
  if (boughtBy(visitor).length === 0) return c.redirect('/')
  const { customer_portal_url } = await bursar.customerSessions.create({ external_customer_id: visitor })
  return c.redirect(customer_portal_url)
})

// The published adapter. It rejects events without a valid signature before the handler runs.
app.post(
  '/hooks',
  Webhooks({
    webhookSecret: needed('WEBHOOK_SECRET'),
    onOrderPaid: async ({ data }) => void paid.set(data.id, { visitor: data.customer.externalId, product: data.product?.name ?? data.description }),
  }),
)

serve({ fetch: app.fetch, hostname: '127.0.0.1', port }, () => console.log(`open ${home}`))
