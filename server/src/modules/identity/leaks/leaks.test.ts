import { createSign, generateKeyPairSync } from 'node:crypto'
import { acceptInvitation, getCurrentUser, inviteMember, listOrganizations, listTokenPatterns, reportLeaks } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newToken, tokenKinds } from '../../../kernel/secrets.ts'
import { exchange, openWorld, type World } from '../../../../test/harness/world.ts'

const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true, settings: { BURSAR_SCANNING_KEYS: JSON.stringify({ key1: publicKey.export({ type: 'spki', format: 'pem' }) }) } })
})
afterAll(() => world.close())

const report = async (tokens: readonly string[], headers: Record<string, string> = {}) => {
  const body = JSON.stringify(tokens.map((token) => ({ token, type: 'something_token', url: 'https://gist.example/1', source: 'content' })))
  const signature = createSign('sha256').update(body).sign(privateKey, 'base64')
  const answer = await exchange(
    world.port,
    'POST',
    reportLeaks.path,
    { 'content-type': 'application/json', 'github-public-key-identifier': 'key1', 'github-public-key-signature': signature, ...headers },
    body,
  )
  return { status: answer.status, body: JSON.parse(answer.text) as { token_type: string; label: string }[] }
}

test('revokes a leaked token of any kind from the next request on, and mails its owner [S1-18]', async () => {
  const owner = await world.person()
  const organization = await world.organization({ owner: owner.id })
  const guest = await world.person()
  const oat = await organization.token()
  const pat = await owner.token()
  const cookie = await owner.cookie()
  const session = cookie.split('=')[1]!
  await world.client({ cookie }).call(inviteMember, { params: { id: organization.id }, body: { email: guest.email } })
  const invitation = /bursar_test_inv_\w{43}/.exec((await world.mail.next(guest.email)).text)![0]
  const unknown = newToken('organization', 'sandbox').reveal()
  const foreign = newToken('organization', 'production').reveal()

  const { status, body } = await report([oat.secret.reveal(), pat.secret.reveal(), session, invitation, unknown, foreign, 'ghp_somebody_elses'])
  expect(status).toBe(200)
  expect(body.map(({ label }) => label)).toEqual([
    'true_positive',
    'true_positive',
    'true_positive',
    'true_positive',
    'false_positive',
    'false_positive',
    'false_positive',
  ])
  expect(body[0]!.token_type).toBe(tokenKinds.organization.report)

  for (const token of [oat.secret, pat.secret]) expect((await world.client({ token }).send(listOrganizations, {})).status).toBe(401)
  expect((await world.client({ cookie }).send(getCurrentUser, {})).status).toBe(401)
  expect((await world.client({ cookie: await guest.cookie() }).send(acceptInvitation, { body: { token: invitation } })).status).toBe(410)
  const letters = [await world.mail.next(owner.email), await world.mail.next(owner.email)]
  expect(letters.map(({ subject }) => subject).toSorted()).toEqual([
    `A leaked access token of ${organization.name} was revoked`,
    'A leaked personal access token was revoked',
  ])
  for (const { text } of letters) expect(text).not.toMatch(/bursar_test_\w+_\w{43}/)
})

test('accepts leak reports only if they are signed with a configured key', async () => {
  const organization = await world.organization()
  const { secret } = await organization.token()
  for (const unknown of ['key2', 'constructor', '__proto__'])
    expect(await report([secret.reveal()], { 'github-public-key-identifier': unknown })).toMatchObject({ status: 400, body: { error: 'PublicKeyNotFound' } })
  expect(await report([secret.reveal()], { 'github-public-key-signature': Buffer.alloc(70).toString('base64') })).toMatchObject({
    status: 403,
    body: { error: 'InvalidSignature' },
  })
  expect((await world.client({ token: secret }).send(listOrganizations, {})).status).toBe(200)
})

test('publishes a pattern for each kind of token, and every token matches the pattern of its kind [S1-18]', async () => {
  const { patterns } = await world.client().call(listTokenPatterns, {})
  const organization = await world.organization()
  const token = (await organization.token()).secret.reveal()
  expect(patterns.filter(({ pattern }) => new RegExp(pattern).test(token))).toEqual([patterns.find(({ type }) => type === tokenKinds.organization.report)])
  expect(patterns).toHaveLength(Object.keys(tokenKinds).length)
})
