import {
  createCustomer,
  createCustomerSession,
  createProduct,
  deleteCustomer,
  requestEmailUpdate,
  requestPortalCode,
  updateOrganization,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launch } from '../../../../test/harness/process.ts'
import { openSales } from '../../../../test/harness/sales.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { hasCode, type Letter } from '../../../../test/harness/mail.ts'
import { Hasher, randomText } from '../../../kernel/secrets.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { findSeller, readSender, sendMail } from '../index.ts'
import { purge, receiveReport } from './mail-reports.ts'
import { mailToken, readMailToken } from './tokens.ts'

let world: World
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld({ worker: true, settings: { BURSAR_MAIL_BOUNCES: 'bounces+{token}@mail.bursar.test' } })
  sales = openSales(world)
})
afterAll(() => world.close())

const owner = async <Row extends object>(text: string, values: unknown[] = []) => (await world.database.owner((client) => client.query<Row>(text, values))).rows

interface Report {
  kind: string
  mail: string
  address: string
  diagnostic: string | null
  cleared_at: Date | null
}
const reports = (organization_id: string | null) =>
  owner<Report>(`select kind, mail, address, diagnostic, cleared_at from mail_reports where organization_id is not distinct from $1 order by created_at, id`, [
    organization_id,
  ])

/** Runs a command with a text on its standard input. Returns its status and its JSON. */
const run = async (args: readonly string[], input = '', settings: Record<string, string> = {}) => {
  const program = launch([...args, '--json'], { ...world.environmentVariables, ...settings }, undefined, undefined, true)
  program.child.stdin!.end(input)
  const code = await program.exited
  const output = program.output()
  return { code, output, said: output.startsWith('{') ? (JSON.parse(output) as Record<string, unknown>) : {} }
}

const receive = (message: string) => receiveReport(world, Buffer.from(message))

/** Creates a shop with a customer. Its `mail` sends an ordinary mail to the customer, and `code` a security mail. */
const open = async (email = `${randomText(10, 'abcdefghijklmnop')}@people.test`) => {
  const { api, organization } = await world.shop()
  const anna = await api.call(createCustomer, { body: { email, name: 'Anna' } })
  const card = newId(world.clock.wall())
  await owner(
    `insert into payment_methods (organization_id, id, created_at, customer_id, processor, type, method_metadata, processor_method_id)
     values ($1, $2, now(), $3, 'stripe', 'card', '{"brand":"visa","last4":"0001","exp_month":1,"exp_year":2030}', 'pm_1')`,
    [organization.id, card, anna.id],
  )
  await owner(`update customers set default_payment_method_id = $2 where id = $1`, [anna.id, card])
  const plan = await api.call(createProduct, {
    body: { name: 'Plan', recurring_interval: 'year', prices: [{ amount_type: 'fixed', price_amount: 10_000 }] },
  })
  await sales.subscription(anna, plan, [plan.prices[0]!.id], { amount: 10_000, recurring_interval: 'year' })
  const request = { organization_id: organization.id, payment_method_id: card }
  return {
    api,
    organization,
    email,
    anna,
    mail: () => world.transact((tx) => enqueue(tx, 'mail.card_expiring', request)),
    code: () => api.send(requestPortalCode, { body: { organization_id: organization.id, email } }),
    reports: () => reports(organization.id),
    /** Waits until the log says that a mail of the shop was not sent. Returns the log line. */
    said: (msg: string, mail: string, count = 1) =>
      eventually(`${msg} of ${mail}`, async () => {
        const found = world.lines.filter((text) => text.includes(msg) && text.includes(organization.id) && text.includes(`"mail":"${mail}"`))
        return found.length >= count && (JSON.parse(found.at(-1)!) as Record<string, unknown>)
      }),
  }
}

/** A delivery status notification as Postfix writes it. */
const bounce = (to: string, { action = 'failed', status = '5.1.1', diagnostic = 'smtp; 550 5.1.1 No such user', original = '' } = {}) =>
  [
    'From: MAILER-DAEMON@mx.people.test (Mail Delivery System)',
    `To: ${to}`,
    'Subject: Undelivered Mail Returned to Sender',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status; boundary="b1"',
    '',
    '--b1',
    'Content-Type: text/plain',
    '',
    'Your message could not be delivered. bounces+0000000000000000000000000000000000000000@mail.bursar.test',
    '',
    '--b1',
    'Content-Type: message/delivery-status',
    '',
    'Reporting-MTA: dns; mx.people.test',
    '',
    'Final-Recipient: rfc822; someone@people.test',
    `Action: ${action}`,
    `Status: ${status}`,
    `Diagnostic-Code: ${diagnostic}`,
    '',
    '--b1',
    'Content-Type: message/rfc822',
    '',
    original || 'Subject: Hello',
    '',
    'Text',
    '--b1--',
    '',
  ].join('\r\n')

/** An abuse report of a mailbox provider. It is not sent to the return path, so only the copy of the mail contains the token. */
const complaint = ({ message_id }: Pick<Letter, 'message_id'>, type = 'abuse') =>
  [
    'From: <abusedesk@people.test>',
    'To: <feedback@bursar.test>',
    'Subject: FW: Your card expires',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=feedback-report; boundary="b2"',
    '',
    '--b2',
    'Content-Type: text/plain',
    '',
    'This is an email abuse report.',
    '',
    '--b2',
    'Content-Type: message/feedback-report',
    '',
    `Feedback-Type: ${type}`,
    'User-Agent: SomeGenerator/1.0',
    'Version: 1',
    '',
    '--b2',
    'Content-Type: message/rfc822',
    '',
    `Message-ID: ${message_id}`,
    'Subject: Your card expires',
    '',
    'Text',
    '--b2--',
    '',
  ].join('\r\n')

describe('tokens of mails', () => {
  const key = (letter: string) => Buffer.alloc(32, letter)
  const hasher = new Hasher([{ version: 1, key: key('a') }])

  test('contain the id in upper and lower case, and stay valid after a new pepper', () => {
    for (const id of [newId(new Date()), '00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff']) {
      const token = mailToken(hasher, id)
      expect(token).toMatch(/^[0-9a-z]{41}$/)
      expect(readMailToken(hasher, `Bounces+${token.toUpperCase()}@Mail.Bursar.Test`)).toBe(id)
      const rotated = new Hasher([
        { version: 2, key: key('b') },
        { version: 1, key: key('a') },
      ])
      expect(readMailToken(rotated, `<${token}@mail.bursar.test>`)).toBe(id)
    }
  })

  test('are refused if one character is changed, or if another deployment made them', () => {
    const token = mailToken(hasher, newId(new Date()))
    for (let at = 0; at < token.length; at++) {
      const forged = token.slice(0, at) + (token[at] === '1' ? '2' : '1') + token.slice(at + 1)
      expect(readMailToken(hasher, `${forged}@mail.bursar.test`)).toBeUndefined()
    }
    expect(readMailToken(new Hasher([{ version: 1, key: key('b') }]), `${token}@mail.bursar.test`)).toBeUndefined()
    expect(readMailToken(hasher, `${'z'.repeat(41)}@mail.bursar.test`)).toBeUndefined()
  })
})

describe('rejections of the mail server', () => {
  test('records a mailbox that does not exist, ends the job, and sends no further mail', async () => {
    const shop = await open()
    world.mail.reject(shop.email, 550, `5.1.1 <${shop.email}> No such user`)
    await shop.mail()
    await shop.said('mail_rejected', 'card_expiring')
    expect(await shop.reports()).toEqual([
      { kind: 'permanent', mail: 'card_expiring', address: shop.email, diagnostic: `550 5.1.1 <${shop.email}> No such user`, cleared_at: null },
    ])
    world.mail.reject(shop.email)
    await shop.mail()
    const line = await shop.said('mail_suppressed', 'card_expiring')
    expect(line).toMatchObject({ level: 'info', reason: 'permanent' })
    expect(JSON.stringify(line)).not.toContain(shop.email)
    expect(world.mail.letters.filter(({ to }) => to === shop.email)).toEqual([])
    expect(await owner(`select from graphile_worker.jobs where last_error is not null`)).toEqual([])
  })

  test('retries after a rejection for another reason, and suppresses nothing', async () => {
    const shop = await open()
    for (const [code, text] of [
      [450, '4.2.0 Greylisted'],
      [550, '5.7.1 Relaying denied'],
      [550, 'relay not permitted'],
      [552, '5.2.2 Mailbox full'],
    ] as const) {
      world.mail.reject(shop.email, code, text)
      const before = world.lines.length
      await shop.mail()
      await eventually(`the job failed after ${text}`, async () => world.lines.slice(before).some((line) => line.includes('job_failed')))
      world.mail.reject(shop.email)
      await owner(`update graphile_worker._private_jobs set run_at = now() where attempts > 0`)
      await world.mail.next(shop.email)
    }
    expect(await shop.reports()).toEqual([])
  })

  test('tries a sign-in code again after an hour, because the mailbox may exist by then', async () => {
    const shop = await open()
    world.mail.reject(shop.email, 550, 'No such user here')
    await shop.code()
    await shop.said('mail_rejected', 'customer_code')
    world.mail.reject(shop.email)
    await shop.code()
    await shop.said('mail_suppressed', 'customer_code')
    await owner(`update mail_reports set created_at = created_at - interval '61 minutes' where organization_id = $1`, [shop.organization.id])
    await shop.code()
    expect(hasCode(await world.mail.next(shop.email))).toBe(true)
    await shop.mail()
    await shop.said('mail_suppressed', 'card_expiring')
  })
})

describe('reports', () => {
  test('returns bounces to an address with a token, and keeps the visible sender', async () => {
    const shop = await open()
    await shop.mail()
    const letter = await world.mail.next(shop.email)
    expect(letter.from.address).toBe('bursar@localhost')
    expect(letter.return_path).toMatch(/^bounces\+[0-9a-z]{41}@mail\.bursar\.test$/)
    expect(letter.message_id).toBe(`<${letter.return_path.replace('bounces+', '')}>`)
  })

  test('records a permanent bounce once, and suppresses mails of this organization only', async () => {
    const shop = await open()
    await shop.mail()
    const { return_path } = await world.mail.next(shop.email)
    const received = await run(['mails', 'receive'], bounce(return_path))
    expect(received).toMatchObject({ code: 0, said: { kind: 'permanent' } })
    expect(await receive(bounce(return_path))).toEqual({ ignored: 'the same report was recorded before' })
    expect(await shop.reports()).toEqual([
      { kind: 'permanent', mail: 'card_expiring', address: shop.email, diagnostic: '5.1.1 550 5.1.1 No such user', cleared_at: null },
    ])
    await shop.mail()
    await shop.said('mail_suppressed', 'card_expiring')

    const other = await open(shop.email)
    await other.mail()
    expect((await world.mail.next(shop.email)).from.name).toBe(other.organization.name)

    // The change is in the audit log under the name of the command, without the address.
    const [entry] = await owner<{ changes: unknown }>(`select changes from audit_log where operation = 'cli mails receive' and organization_id = $1`, [
      shop.organization.id,
    ])
    expect(JSON.stringify(entry!.changes)).toContain('mail_reports')
    expect(JSON.stringify(entry!.changes)).not.toContain(shop.email)
  })

  test('records bounces that say nothing about the mailbox, and goes on sending', async () => {
    const shop = await open()
    for (const given of [
      { status: '5.7.1', diagnostic: 'smtp; 550 5.7.1 Rejected by policy' },
      { status: '5.2.2', diagnostic: 'smtp; 552 5.2.2 Mailbox full' },
      { action: 'delayed', status: '4.4.1', diagnostic: 'smtp; no answer' },
      { status: '5.0.0', diagnostic: 'smtp; 550 relay not permitted' },
    ]) {
      await shop.mail()
      const { return_path } = await world.mail.next(shop.email)
      expect(await receive(bounce(return_path, given))).toMatchObject({ kind: 'transient' })
    }
    await shop.mail()
    await world.mail.next(shop.email)
    expect((await shop.reports()).map(({ kind }) => kind)).toEqual(['transient', 'transient', 'transient', 'transient'])
  })

  test('reads the token from the copy of the mail, if the bounce was sent to another address', async () => {
    const shop = await open()
    await shop.mail()
    const { return_path } = await world.mail.next(shop.email)
    const message = bounce('postmaster@bursar.test', { status: '5.0.0', diagnostic: 'smtp; 550 No such user', original: `Return-Path: <${return_path}>` })
    expect(await receive(message)).toMatchObject({ kind: 'permanent' })
  })

  test('records a complaint, and sends security mails nevertheless', async () => {
    const shop = await open()
    await shop.mail()
    const letter = await world.mail.next(shop.email)
    expect(await receive(complaint(letter, 'not-spam'))).toMatchObject({ ignored: expect.stringContaining('RFC 5965') as string })
    expect(await receive(complaint(letter))).toMatchObject({ kind: 'complaint' })
    await shop.mail()
    expect(await shop.said('mail_suppressed', 'card_expiring')).toMatchObject({ reason: 'complaint' })
    await shop.code()
    expect(hasCode(await world.mail.next(shop.email))).toBe(true)
  })

  test('ignores forged tokens, other messages and oversized ones, and asks for another try if the database is away', async () => {
    const shop = await open()
    await shop.mail()
    const { return_path } = await world.mail.next(shop.email)
    const forged = return_path.replace(/.@/, (last) => (last === '0@' ? '1@' : '0@'))
    expect(await receive(bounce(forged))).toEqual({ ignored: 'it contains no valid token of a mail' })
    const nested = `Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n`.repeat(200)
    for (const message of [
      bounce(return_path, { action: 'delivered', status: '2.0.0' }),
      `To: ${return_path}\r\nSubject: Out of office\r\n\r\nBack.`,
      '',
      nested,
    ])
      expect(await receive(message)).toEqual({ ignored: expect.stringContaining('it is no report') as string })
    expect(await shop.reports()).toEqual([])
    // The command ends with 0 for messages that it ignores, and with 75 if the database is away.
    expect(await run(['mails', 'receive'], bounce(forged))).toMatchObject({ code: 0, said: { ignored: expect.any(String) as string } })
    expect((await run(['mails', 'receive'], bounce(return_path), { BURSAR_DATABASE_URL: 'postgres://none@127.0.0.1:1/none' })).code).toBe(75)
    // Only the first MiB is read, and the status is in it.
    expect(await receive(bounce(return_path, { original: `X: ${'a'.repeat(70)}\r\n\r\n${'Text\r\n'.repeat(300_000)}` }))).toMatchObject({ kind: 'permanent' })
  })

  test('bounds and cleans the diagnostic', async () => {
    const shop = await open()
    await shop.mail()
    const { return_path } = await world.mail.next(shop.email)
    await receive(bounce(return_path, { diagnostic: `smtp; 550 5.1.1 \u0007${'x'.repeat(2000)}` }))
    const [report] = await shop.reports()
    expect(report!.diagnostic).toMatch(/^5\.1\.1 550 5\.1\.1 x+$/)
    expect(report!.diagnostic).toHaveLength(500)
  })

  test('lists suppressed addresses, and sends to an address again after it was cleared', async () => {
    const shop = await open()
    await shop.mail()
    await receive(bounce((await world.mail.next(shop.email)).return_path))
    const { slug } = shop.organization
    const listed = await run(['mails', 'suppressed', '--organization', slug])
    expect(listed.said).toMatchObject({ suppressed: [{ organization: slug, address: shop.email, kind: 'permanent', mail: 'card_expiring' }] })
    expect((await run(['mails', 'suppressed', '--clear', 'other@people.test'])).code).toBe(2)
    expect((await run(['mails', 'suppressed', '--organization', slug, '--clear', shop.email.toUpperCase()])).said).toEqual({ cleared: 1 })
    await shop.mail()
    await world.mail.next(shop.email)
    expect((await shop.reports())[0]!.cleared_at).not.toBeNull()
  })

  test('deletes sent mails and transient reports after 30 days, and other reports after a year', async () => {
    const shop = await open()
    await shop.mail()
    const { return_path } = await world.mail.next(shop.email)
    await receive(bounce(return_path, { status: '5.7.1' }))
    await receive(bounce(return_path))
    const deps = { db: world.api.postgres.db, transact: world.transactAsWorker, gateways: world.api.gateways, platform: world.platform }
    const kinds = async () => (await shop.reports()).map(({ kind }) => kind)
    const age = (days: number) =>
      Promise.all(
        ['sent_mails', 'mail_reports'].map((table) =>
          owner(`update ${table} set created_at = now() - $2 * interval '1 day' where organization_id = $1`, [shop.organization.id, days]),
        ),
      )
    await age(29)
    await purge(deps)
    expect(await kinds()).toEqual(['transient', 'permanent'])
    await age(31)
    await purge(deps)
    expect(await kinds()).toEqual(['permanent'])
    expect(await receive(complaint({ message_id: `<${return_path.replace('bounces+', '')}>` }))).toEqual({ ignored: 'the mail is older than 30 days' })
    await age(366)
    await purge(deps)
    expect(await kinds()).toEqual([])
  })
})

test('erases mails and reports with the person, also under an address of a requested change, and ignores later reports', async () => {
  const shop = await open()
  await shop.mail()
  const letter = await world.mail.next(shop.email)
  await shop.mail()
  await receive(bounce((await world.mail.next(shop.email)).return_path, { diagnostic: `smtp; 550 5.1.1 ${shop.email} unknown` }))
  const portal = world.client({ token: (await shop.api.call(createCustomerSession, { body: { customer_id: shop.anna.id } })).token })
  const next = `next-${shop.email}`
  await shop.api.call(updateOrganization, {
    params: { id: shop.organization.id },
    body: {
      customer_portal_settings: { usage: { show: true }, subscription: { update_seats: true, update_plan: true }, customer: { allow_email_change: true } },
    },
  })
  await portal.call(requestEmailUpdate, { body: { email: next } })
  await world.mail.next(next)
  const found = async () => {
    const [row] = await owner<{ text: string }>(
      `select coalesce((select string_agg(m::text, ' ') from sent_mails m where organization_id = $1), '')
        || coalesce((select string_agg(r::text, ' ') from mail_reports r where organization_id = $1), '') as text`,
      [shop.organization.id],
    )
    return row!.text
  }
  expect(await found()).toContain(shop.email)
  expect(await found()).toContain(next)
  expect((await shop.api.send(deleteCustomer, { params: { id: shop.anna.id }, query: { anonymize: 'true' } })).status).toBe(204)
  expect(await found()).not.toContain(shop.email)
  expect(await found()).toContain('@anonymized.invalid')
  expect(await receive(bounce(letter.return_path))).toEqual({ ignored: 'its recipient was erased' })
  expect(await found()).not.toContain(shop.email)
})

describe('a mail that is sent during the erasure of its person', () => {
  /** Sends a mail as a job does that has read the address before the erasure. */
  const late = async ({ organization, email, anna }: Awaited<ReturnType<typeof open>>, settings: Partial<typeof world.platform.config.mail> = {}) => {
    const platform = { ...world.platform, config: { ...world.platform.config, mail: { ...world.platform.config.mail, ...settings } } }
    const deps = { db: world.api.postgres.db, transact: world.transactAsWorker, gateways: world.api.gateways, platform }
    const seller = (await findSeller(deps.db, organization))!
    const view = { kind: 'card_expiring', card: { brand: 'visa', last4: '0001' }, month: 1, year: 2030, card_url: 'https://bursar.test/card' } as const
    await sendMail(deps, { to: email, seller, customer_ids: [anna.id], language: 'en', view })
  }
  const erase = async ({ api, anna }: Awaited<ReturnType<typeof open>>) =>
    expect((await api.send(deleteCustomer, { params: { id: anna.id }, query: { anonymize: 'true' } })).status).toBe(204)
  const rowsAbout = (address: string) =>
    owner(`select address from sent_mails where address = $1 union all select address from mail_reports where address = $1`, [address])

  test('is neither stored nor sent', async () => {
    const shop = await open()
    await erase(shop)
    await late(shop)
    expect(await rowsAbout(shop.email)).toEqual([])
    expect(world.mail.letters.filter(({ to }) => to === shop.email)).toEqual([])
    expect(await shop.said('mail_suppressed', 'card_expiring')).toMatchObject({ reason: 'erased' })
  })

  test('leaves no report if the mail server rejects it', async () => {
    const shop = await open()
    world.mail.reject(shop.email, 550, `5.1.1 <${shop.email}> No such user`)
    await erase(shop)
    await late(shop, { bounces: undefined })
    await shop.said('mail_rejected', 'card_expiring')
    expect(await rowsAbout(shop.email)).toEqual([])
  })

  test('waits for an erasure that has begun', async () => {
    const shop = await open()
    await world.database.owner(async (client) => {
      await client.query('begin')
      await client.query('update customers set forgotten_at = now() where id = $1', [shop.anna.id])
      const sending = late(shop)
      await eventually('the mail waits', async () => {
        const waiting = await world.database.owner((other) =>
          other.query(
            `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%forgotten_at from customers%'`,
          ),
        )
        return waiting.rows.length > 0
      })
      await client.query('commit')
      await sending
    })
    expect(await rowsAbout(shop.email)).toEqual([])
  })
})

describe('sender of an organization', () => {
  const set = (address: string, slug: string) => run(['operator', 'sender', address, '--organization', slug])

  test('sends with the address that the operator allowed, and with the address of the deployment after a reset', async () => {
    const shop = await open()
    const { slug } = shop.organization
    expect((await set('Acme <billing@acme.test>', slug)).code).toBe(2)
    expect((await set('billing@acme.test', slug)).said).toEqual({ organization: slug, sender_address: 'billing@acme.test' })
    await shop.mail()
    const letter = await world.mail.next(shop.email)
    expect(letter.from).toEqual({ name: shop.organization.name, address: 'billing@acme.test' })
    // Bounces still return to the deployment.
    expect(letter.return_path).toMatch(/@mail\.bursar\.test$/)
    expect((await set('default', slug)).said).toEqual({ organization: slug, sender_address: null })
    await shop.mail()
    expect((await world.mail.next(shop.email)).from.address).toBe('bursar@localhost')
  })

  test('is not set by the seller', async () => {
    const shop = await open()
    await shop.api.send(updateOrganization, { params: { id: shop.organization.id }, body: { sender_address: 'ceo@bank.test' } as never })
    expect(await owner('select sender_address from organizations where id = $1', [shop.organization.id])).toEqual([{ sender_address: null }])
  })

  test.each([
    'not an address',
    'Acme <billing@acme.test>',
    'billing@acme.test\r\nBcc: spy@people.test',
    'a@acme.test, b@acme.test',
    '"a b"@acme.test',
    `${'a'.repeat(250)}@acme.test`,
    '@acme.test',
    'billing@acme',
  ])('refuses what is not one plain address: %j', async (address) => {
    const { organization } = await world.shop()
    expect(readSender(address)).toBeUndefined()
    await expect(owner('update organizations set sender_address = $2 where id = $1', [organization.id, address])).rejects.toThrow(/check constraint/)
    expect(await owner('select sender_address from organizations where id = $1', [organization.id])).toEqual([{ sender_address: null }])
  })
})

test('stores only mails about orders without a setting for bounces', async () => {
  const plain = await openWorld({ worker: true })
  try {
    const { api, organization } = await plain.shop()
    const email = 'mira@people.test'
    await api.call(createCustomer, { body: { email, name: 'Mira' } })
    await api.send(requestPortalCode, { body: { organization_id: organization.id, email } })
    expect((await plain.mail.next(email)).return_path).toBe('bursar@localhost')
    const { rows } = await plain.database.owner((client) => client.query('select from sent_mails'))
    expect(rows).toEqual([])
  } finally {
    await plain.close()
  }
})
