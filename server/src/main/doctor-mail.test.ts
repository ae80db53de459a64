import { generateKeyPairSync } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDns, type Dns } from '../../test/harness/dns.ts'
import { openWorld, type World } from '../../test/harness/world.ts'
import { readConfig } from '../platform/config.ts'
import { examine } from './doctor.ts'
import { checkDkim, checkDmarc, checkSpf } from './doctor-mail.ts'

let world: World
let dns: Dns
beforeAll(async () => {
  ;[world, dns] = await Promise.all([openWorld(), openDns()])
})
afterAll(async () => {
  dns.close()
  await world.close()
})

const publicKey = (bits: number) => generateKeyPairSync('rsa', { modulusLength: bits }).publicKey.export({ format: 'der', type: 'spki' }).toString('base64')
const key = publicKey(2048)
const sound = {
  'shop.acme.dev': ['v=spf1 include:_spf.relay.dev ~all', 'another-text'],
  's1._domainkey.shop.acme.dev': `v=DKIM1; k=rsa; p=${key}`,
  '_dmarc.acme.dev': 'v=DMARC1; p=none; sp=reject; rua=mailto:dmarc@acme.dev',
}
const settings = () => ({
  ...world.environmentVariables,
  BURSAR_SMTP_URL: 'smtps://user:a-secret@smtp.relay.dev',
  BURSAR_MAIL_FROM: 'Shop <shop@shop.acme.dev>',
  BURSAR_MAIL_DKIM_SELECTORS: 's2,s1',
  BURSAR_DNS_SERVERS: dns.address,
})

/** Replaces the given records, and runs the three checks. Undefined removes a record. */
const look = async (changed: Record<string, string | string[] | undefined> = {}, more: Record<string, string> = {}, broken?: string) => {
  dns.set(Object.fromEntries(Object.entries({ ...sound, ...changed }).flatMap(([name, texts]) => (texts === undefined ? [] : [[name, texts]]))))
  if (broken !== undefined) dns.fail(broken)
  const config = readConfig({ ...settings(), ...more })
  const { db } = world.api.postgres
  const [spf, dkim, dmarc] = [await checkSpf(config, db), await checkDkim(config, db), await checkDmarc(config, db)]
  return { spf, dkim, dmarc }
}

test('accepts sound records, and says what they contain and what remains to be checked by hand', async () => {
  const { spf, dkim, dmarc } = await look()
  expect([spf.problem, dkim.problem, dmarc.problem]).toEqual([undefined, undefined, undefined])
  expect(spf.says).toBe('shop.acme.dev: "v=spf1 include:_spf.relay.dev ~all". Check that it allows smtp.relay.dev, and the server through which that one sends')
  expect(dkim.says).toBe('shop.acme.dev: a valid key at s1._domainkey.shop.acme.dev')
  // The policy for subdomains applies, because the record belongs to the parent domain.
  expect(dmarc.says).toBe('shop.acme.dev: policy reject at _dmarc.acme.dev. SPF and DKIM can both align; sign with DKIM for d=shop.acme.dev')
  expect(dns.asked.toSorted()).toEqual(
    ['_dmarc.acme.dev', '_dmarc.shop.acme.dev', 's1._domainkey.shop.acme.dev', 's2._domainkey.shop.acme.dev', 'shop.acme.dev'].toSorted(),
  )
})

describe('SPF', () => {
  test.each([
    ['no record', ['another-text'], /has no SPF record/, 'shop.acme.dev. TXT "v=spf1 a:smtp.relay.dev ~all"'],
    ['a name that does not exist', undefined, /has no SPF record/, 'shop.acme.dev. TXT "v=spf1 a:smtp.relay.dev ~all"'],
    ['two records', ['v=spf1 mx ~all', 'v=spf1 a -all'], /has 2 SPF records/, 'merge the SPF records of shop.acme.dev'],
    ['a record for every server', ['v=spf1 mx +all'], /every server may send/, 'replace +all with ~all'],
    ['a record for every server, without a sign', ['v=spf1 mx all'], /every server may send/, 'replace +all with ~all'],
  ])('reports %s', async (_, texts, says, repair) => {
    const { problem } = (await look({ 'shop.acme.dev': texts })).spf
    expect(problem!.says).toMatch(says)
    expect(problem!.repair).toContain(repair)
  })

  test('is needed for the domain of bounces, and not for a sender whose bounces go there', async () => {
    const more = { BURSAR_MAIL_BOUNCES: 'bounces+{token}@returns.relay.dev' }
    const { spf, dmarc } = await look({ 'shop.acme.dev': undefined }, more)
    expect(spf.problem!.repair).toContain('returns.relay.dev. TXT')
    expect(spf.problem!.says).not.toContain('shop.acme.dev')
    expect(dmarc.says).toContain('SPF does not align, because bounces return to returns.relay.dev; sign with DKIM for d=shop.acme.dev')
  })
})

describe('DKIM', () => {
  test.each([
    ['no key', undefined, /s2\._domainkey\.shop\.acme\.dev has no DKIM key, s1\._domainkey/],
    ['a revoked key', 'v=DKIM1; p=', /revoked/],
    ['a damaged key', `v=DKIM1; p=${key.slice(0, 100)}`, /damaged/],
    ['a short key', `v=DKIM1; p=${publicKey(768)}`, /768 bits/],
  ])('reports %s', async (_, texts, says) => {
    const { problem } = (await look({ 's1._domainkey.shop.acme.dev': texts })).dkim
    expect(problem!.says).toMatch(says)
    expect(problem!.repair).toContain('s2._domainkey.shop.acme.dev. TXT "v=DKIM1; k=rsa; p=')
  })

  test('accepts an Ed25519 key', async () => {
    const { dkim } = await look({ 's2._domainkey.shop.acme.dev': `v=DKIM1; k=ed25519; p=${Buffer.alloc(32, 1).toString('base64')}` })
    expect(dkim).toEqual({ says: 'shop.acme.dev: a valid key at s2._domainkey.shop.acme.dev' })
  })

  test('says that it needs the selectors', async () => {
    expect((await look({}, { BURSAR_MAIL_DKIM_SELECTORS: '' })).dkim).toEqual({ says: expect.stringContaining('BURSAR_MAIL_DKIM_SELECTORS') as string })
  })
})

describe('DMARC', () => {
  test.each([
    ['no record', undefined, /has no DMARC record/, '_dmarc.shop.acme.dev. TXT "v=DMARC1; p=none'],
    ['two records', ['v=DMARC1; p=none', 'v=DMARC1; p=reject'], /has 2 DMARC records/, 'delete all but one'],
    ['a record without a policy', 'v=DMARC1; rua=mailto:a@acme.dev', /no valid policy/, '_dmarc.acme.dev. TXT "v=DMARC1; p=none'],
  ])('reports %s', async (_, texts, says, repair) => {
    const { problem } = (await look({ '_dmarc.acme.dev': texts })).dmarc
    expect(problem!.says).toMatch(says)
    expect(problem!.repair).toContain(repair)
  })

  test('accepts the policy none, and suggests a stricter one', async () => {
    const { dmarc } = await look({ '_dmarc.shop.acme.dev': 'v=DMARC1; p=none' })
    expect(dmarc.problem).toBeUndefined()
    expect(dmarc.says).toContain('change it to quarantine')
  })
})

test('says that DNS did not answer, and does not fail', async () => {
  const { spf, dkim, dmarc } = await look({}, {}, 'shop.acme.dev')
  expect(spf).toEqual({ says: expect.stringContaining('SPF of shop.acme.dev could not be looked up: DNS did not answer (ESERVFAIL)') as string })
  expect([dkim.problem, dmarc.problem]).toEqual([undefined, undefined])
  const away = await look({}, { BURSAR_DNS_SERVERS: '127.0.0.1:1' })
  for (const verdict of Object.values(away)) expect(verdict).toEqual({ says: expect.stringContaining('could not be looked up') as string })
})

test('looks nothing up for private domains, and for mails in a folder', async () => {
  expect((await look({}, { BURSAR_MAIL_FROM: 'shop@bursar.test' })).spf.says).toBe('not looked up: bursar.test is not a public domain')
  expect((await look({}, { BURSAR_SMTP_URL: '', BURSAR_MAIL_DIR: '/tmp/none' })).dmarc.says).toBe('not looked up: mails are written to a folder')
  expect(dns.asked).toEqual([])
})

test('checks the sender domains of organizations, and shows each problem through the check of its record', async () => {
  const { organization } = await world.shop()
  await world.database.owner((owner) => owner.query(`update organizations set sender_address = 'hi@Seller.dev' where id = $1`, [organization.id]))
  const { spf, dkim, dmarc } = await look()
  expect(spf.problem).toBeUndefined()
  expect(dkim.problem!.repair).toContain('s2._domainkey.seller.dev')
  expect(dkim.problem!.says).not.toContain('shop.acme.dev')
  expect(dmarc.problem!.repair).toContain('_dmarc.seller.dev')
  const findings = await examine({ ...settings(), BURSAR_SMTP_URL: world.mail.url })
  const shown = findings.filter(({ name }) => ['spf', 'dkim', 'dmarc'].includes(name))
  expect(shown.map(({ name, state }) => `${name} ${state}`)).toEqual(['spf ok', 'dkim failed', 'dmarc failed'])
  expect(shown[2]!.repair).toContain('_dmarc.seller.dev')
})
