import {
  createCustomer,
  createDiscount,
  exportCustomers,
  exportOrders,
  exportSubscriptions,
  createProduct,
  OrderExportColumn,
  SubscriptionExportColumn,
} from '@bursar/contract'
import { parse } from 'csv-parse/sync'
import papaparse from 'papaparse'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { csvOf, escapeFormula, textCell } from '../../../src/kernel/csv.ts'
import { text } from '../../../src/platform/postgres/exports.sql.ts'
import { copyRow } from '../../harness/copies.ts'
import { openSales } from '../../harness/sales.ts'
import { openWorld, type World } from '../../harness/world.ts'
import { counted } from '../../harness/pace.ts'

/** Number of hostile cells. The long run writes a million. */
const cells = counted('CELLS', 20_000, 5000)

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

/** Characters that a spreadsheet may skip, and characters that start a formula. Defined independently of the server's code. */
// oxlint-disable-next-line no-control-regex -- those are what it is about
const skipped = /^[ \u{1}-\u{8}\v\f\u{e}-\u{1f}\u{7f}-\u{a0}\u{1680}\u{2000}-\u{200f}\u{2028}-\u{202f}\u{ad}\u{180e}\u{205f}-\u{2064}\u{3000}\u{feff}]*/u
const triggers = '=+-@|%＝＋－＠﹢﹣﹦﹫−'
const begins = (line: string) => triggers.includes(line.replace(skipped, '').slice(0, 1) || '\0')
const isFormula = (cell: string) => /^[\t\r\n]/.test(cell.replace(skipped, '')) || cell.split(/[\r\n\t;]/).some(begins)

/** Removes the apostrophes that the export adds before a formula, to get the stored text back. */
const unguarded = (cell: string) =>
  cell
    .split(/(?<=[\r\n\t;])/)
    .map((line, at) => {
      if (!line.startsWith("'")) return line
      const rest = line.replace(/^'+/, '')
      return begins(rest) || (at === 0 && /^[\t\r\n]/.test(rest.replace(skipped, ''))) ? line.slice(1) : line
    })
    .join('')

/** Returns a random text of characters that start a formula, and of characters that formula filters often miss. */
const hostile = (seed: number): string => {
  let state = seed * 2_654_435_761 + 1
  const below = (n: number) => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 3_266_489_917) >>> 0
    return state % n
  }
  const pieces = [
    ...triggers.split(''),
    '\t',
    '\r',
    '\n',
    '\r\n',
    ' ',
    '\u{a0}',
    '\u{feff}',
    '\u{200b}',
    "'",
    "''",
    '"',
    '""',
    ',',
    ';',
    '\\',
    '\\.',
    '\u{1}',
    'cmd|"/C calc"!A0',
    'HYPERLINK("http://x")',
    '1',
    'a',
    'ä',
    '🧾',
    'é',
    '\u{2028}',
    '\u{ad}',
    ';=',
    '',
  ]
  return Array.from({ length: 1 + below(6) }, () => pieces[below(pieces.length)]!).join('')
}

/** Three readers of the same file: two libraries, and PostgreSQL itself. */
const readers: Record<string, (text: string) => Promise<(string | null)[][]>> = {
  'csv-parse': async (text) => parse(text, { relax_column_count: false, record_delimiter: '\r\n' }),
  papaparse: async (text) => {
    const { data, errors } = papaparse.parse<string[]>(text, { newline: '\r\n', delimiter: ',' })
    if (errors.length > 0) throw new Error(JSON.stringify(errors[0]))
    return data.slice(0, -1)
  },
  postgresql: (text) =>
    world.database.owner(async (owner) => {
      const width = parse(text, { to: 1, record_delimiter: '\r\n' })[0]!.length
      const names = Array.from({ length: width }, (_, at) => `c${at}`)
      await owner.query(`create temp table read_back (${names.map((name) => `${name} text`).join()}, line serial)`)
      const { from } = await import('pg-copy-streams')
      await new Promise<void>((resolve, reject) => {
        const into = owner.query(from(`copy read_back (${names.join()}) from stdin with (format csv)`))
        into.on('finish', resolve).on('error', reject)
        into.end(text)
      })
      const { rows } = await owner.query<Record<string, string>>(`select * from read_back order by line`)
      await owner.query('drop table read_back')
      return rows.map((row) => names.map((name) => row[name]!))
    }),
}

/** Reads a file with all readers. Checks that no cell of a column with user text is a formula. */
const readBack = async (text: string, typed: readonly string[]): Promise<Map<string, (string | null)[]>> => {
  const found = new Map<string, (string | null)[]>()
  let before: string | undefined
  for (const [name, read] of Object.entries(readers)) {
    const [header, ...records] = await read(text)
    const said = JSON.stringify(records, (_, value: unknown) => value ?? '')
    expect(said === (before ?? said), `${name} reads the same`).toBe(true)
    before = said
    for (const [at, title] of header!.entries())
      found.set(
        title!,
        records.map((record) => record[at] ?? ''),
      )
  }
  for (const [title, column] of found) if (!typed.includes(title)) expect(column.filter((cell) => isFormula(cell ?? '')).slice(0, 3), title).toEqual([])
  return found
}

test(`guards ${cells} hostile cells against formulas, and three readers return the stored text`, { timeout: 600_000 }, async () => {
  const { api, organization } = await world.shop()
  const sales = openSales(world)
  const anna = await api.call(createCustomer, { body: { email: 'anna@people.test' } })
  const plan = await api.call(createProduct, {
    body: { name: 'Plan', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1000 }] },
  })
  const discount = await api.call(createDiscount, { body: { name: 'Some', type: 'percentage', basis_points: 1000, duration: 'forever' } })
  const order = await sales.order(anna)
  const subscription = await sales.subscription(anna, plan, [plan.prices[0]!.id])
  // Fills every column of user text in the three files with hostile texts, in separate rows.
  const rows = Math.ceil(cells / 16)
  const texts = Array.from({ length: rows * 14 }, (_, at) => hostile(at + 1))
  await world.database.owner(async (owner) => {
    await owner.query(`create temp table hostile (at int primary key, t text)`)
    await owner.query(`insert into hostile select at, t from unnest($1::text[]) with ordinality as u(t, at)`, [texts])
    const t = (offset: number) => `(select h.t from hostile h where h.at = ((n.i - 1) * 14 + ${offset}))`
    await owner.query(
      `create temp table n as select i, gen_random_uuid() as customer_id, gen_random_uuid() as product_id, gen_random_uuid() as discount_id from generate_series(1, ${rows}) i`,
    )
    const copied = (table: string, id: string, changes: Record<string, string>) => copyRow(owner, table, { organization_id: organization.id, id }, 'n', changes)
    const address = `jsonb_build_object('line1', ${t(5)}, 'line2', ${t(6)}, 'postal_code', ${t(7)}, 'city', ${t(8)}, 'state', ${t(9)}, 'country', ${t(10)})`
    await copied('customers', anna.id, {
      id: 'n.customer_id',
      email: `${t(1)} || n.i`,
      name: t(2),
      external_id: `${t(3)} || n.i`,
      tax_id: t(4),
      tax_id_format: `'eu_vat'`,
      billing_name: t(11),
      billing_address: address,
      metadata: `jsonb_build_object(${t(12)}, ${t(13)})`,
    })
    await copied('orders', order.id, {
      id: 'gen_random_uuid()',
      customer_id: 'n.customer_id',
      description: t(12),
      billing_name: t(13),
      billing_address: address,
      invoice_number: `${t(14)} || n.i`,
    })
    await copied('products', plan.id, { id: 'n.product_id', name: t(3) })
    await copied('discounts', discount.id, { id: 'n.discount_id', name: t(4) })
    await copied('subscriptions', subscription.id, {
      id: 'gen_random_uuid()',
      customer_id: 'n.customer_id',
      product_id: 'n.product_id',
      period_discount_id: 'n.discount_id',
    })
  })
  const stored = (sql: string): Promise<Record<string, string>[]> =>
    world.database.owner(async (owner) => (await owner.query<Record<string, string>>(sql, [organization.id])).rows)

  const orders = await readBack((await api.send(exportOrders, { query: { columns: [...OrderExportColumn.options] } })).body, [
    'Created At',
    'Net Amount',
    'Currency',
    'Status',
    'Subtotal',
    'Discount',
    'Tax',
    'Total',
    'Refunded Amount',
    'Billing Reason',
  ])
  const wantOrders = await stored(
    `select c.email, o.description, o.invoice_number, c.name, o.billing_name, o.billing_address ->> 'country' as country
     from orders o join customers c on c.organization_id = o.organization_id and c.id = o.customer_id where o.organization_id = $1 order by o.created_at desc, o.id desc`,
  )
  const compare = (file: Map<string, (string | null)[]>, title: string, want: (string | null | undefined)[]) => {
    const got = file.get(title)!.map((cell) => unguarded(cell ?? ''))
    const different = want.flatMap((one, at) => ((one ?? '') === got[at] ? [] : [{ stored: one, read: got[at] }]))
    expect([title, got.length, different.slice(0, 3)]).toEqual([title, want.length, []])
  }
  compare(
    orders,
    'Email',
    wantOrders.map(({ email }) => email),
  )
  compare(
    orders,
    'Product',
    wantOrders.map(({ description }) => description),
  )
  compare(
    orders,
    'Invoice number',
    wantOrders.map(({ invoice_number }) => invoice_number),
  )
  compare(
    orders,
    'Customer Name',
    wantOrders.map(({ name }) => name),
  )
  compare(
    orders,
    'Billing Name',
    wantOrders.map(({ billing_name }) => billing_name),
  )
  compare(
    orders,
    'Billing Country',
    wantOrders.map(({ country }) => country),
  )

  const customers = await readBack((await api.send(exportCustomers, {})).body, ['ID', 'Created At'])
  const wantCustomers = await stored(
    `select id, external_id, email, name, tax_id, billing_address ->> 'line1' as line1, billing_address ->> 'line2' as line2, billing_address ->> 'city' as city,
       billing_address ->> 'state' as state, billing_address ->> 'postal_code' as zip, billing_address ->> 'country' as country, metadata::text as metadata
     from customers where organization_id = $1 order by created_at desc, id desc`,
  )
  const titles = { id: 'ID', external_id: 'External ID', email: 'Email', name: 'Name', tax_id: 'Tax ID', metadata: 'Metadata' }
  const parts = { line1: 'Line 1', line2: 'Line 2', city: 'City', state: 'State', zip: 'Zip', country: 'Country' }
  for (const [key, title] of Object.entries(titles))
    compare(
      customers,
      title,
      wantCustomers.map((one) => one[key]),
    )
  for (const [key, title] of Object.entries(parts))
    compare(
      customers,
      `Billing Address ${title}`,
      wantCustomers.map((one) => one[key]),
    )

  const typed = ['Started At', 'Amount', 'Currency', 'Status', 'Recurring Interval', 'Net Amount', 'Seats', 'Current Period Start', 'Current Period End']
  const subscriptions = await readBack((await api.send(exportSubscriptions, { query: { columns: [...SubscriptionExportColumn.options] } })).body, [
    ...typed,
    'Cancel At Period End',
    'Canceled At',
    'Ends At',
    'Ended At',
    'Cancellation Reason',
    'Trial Start',
    'Trial End',
  ])
  const wantSubscriptions = await stored(
    `select c.email, c.name, c.billing_name, c.billing_address ->> 'country' as country, p.name as product, d.name as discount from subscriptions s
     left join discounts d on d.organization_id = s.organization_id and d.id = s.period_discount_id
     join customers c on c.organization_id = s.organization_id and c.id = s.customer_id join products p on p.organization_id = s.organization_id and p.id = s.product_id
     where s.organization_id = $1 order by coalesce(s.started_at, s.created_at) desc, s.id desc`,
  )
  compare(
    subscriptions,
    'Email',
    wantSubscriptions.map(({ email }) => email),
  )
  compare(
    subscriptions,
    'Customer Name',
    wantSubscriptions.map(({ name }) => name),
  )
  compare(
    subscriptions,
    'Billing Name',
    wantSubscriptions.map(({ billing_name }) => billing_name),
  )
  compare(
    subscriptions,
    'Billing Country',
    wantSubscriptions.map(({ country }) => country),
  )
  compare(
    subscriptions,
    'Product',
    wantSubscriptions.map(({ product }) => product),
  )
  compare(
    subscriptions,
    'Discount',
    wantSubscriptions.map(({ discount: name }) => name),
  )
  expect(rows * 16).toBeGreaterThanOrEqual(cells)
})

test('escapes a cell that the server writes exactly as PostgreSQL escapes a cell of an export', async () => {
  const texts = Array.from({ length: 5000 }, (_, at) => hostile(at + 1))
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ cell: string }>(`select ${text('t')} as cell from unnest($1::text[]) with ordinality as u(t, at) order by at`, [texts]),
  )
  expect(texts.map(escapeFormula)).toEqual(rows.map(({ cell }) => cell))
  const read = parse(csvOf(texts.map((one) => [textCell(one)])), { record_delimiter: '\r\n' }).flat()
  expect(read.filter(isFormula)).toEqual([])
  expect(read.map(unguarded)).toEqual(texts)
})
