import { requestSignInCode, verifySecondFactor, verifySignInCode } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { codeIn } from '../../../../test/harness/mail.ts'
import { exchange, openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { Secret } from '../../../kernel/secrets.ts'
import { minutes } from '../../../platform/clock.ts'
import { base32, beginFactor, codeAt, confirmFactor, endFactor, pendingFactor, stepOf } from './factors.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const decode = (text: string): Buffer => {
  const bits = text
    .split('')
    .map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
    .join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)))
}

/** Creates a user with a second factor. `code` computes the codes of the authenticator. */
const careful = async () => {
  // Starts at the beginning of a time step, so that the test finishes within it.
  world.clock.advance(30_000 - (world.clock.wall().getTime() % 30_000))
  const person = await world.person()
  const session = { user_id: person.id, credential_id: person.id }
  const set = (await world.transact((tx) => beginFactor(tx, world.platform, { ...session, email: person.email })))!
  const secret = new Secret(decode(set.secret).toString('base64'))
  const code = (steps: number) => codeAt(secret, stepOf(world.clock.wall()) + steps)
  const recovery = await world.transact((tx) => confirmFactor(tx, world.platform, session, code(-1)))
  return { person, code, recovery: recovery! }
}

/** Runs a sign-in up to the second factor and returns the cookie of the pending sign-in. */
const begin = async (email: string) => {
  const api = world.client()
  await api.call(requestSignInCode, { body: { email } })
  const answer = await api.send(verifySignInCode, { body: { email, code: codeIn((await world.mail.next(email)).text) } })
  expect(answer).toMatchObject({ status: 403, body: { error: 'SecondFactorRequired' } })
  const cookie = answer.headers.get('set-cookie')!.split(';')[0]!
  const finish = (code: string) => world.client({}, { cookie }).send(verifySecondFactor, { body: { code } })
  return { cookie, finish }
}

test('computes codes by RFC 6238, and encodes the secret in base 32', () => {
  const secret = new Secret(Buffer.from('12345678901234567890').toString('base64'))
  for (const [seconds, code] of [
    [59, '287082'],
    [1111111109, '081804'],
    [20000000000, '353130'],
  ] as const)
    expect(codeAt(secret, Math.floor(seconds / 30))).toBe(code)
  expect(base32(Buffer.from('12345678901234567890'))).toBe('GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ')
})

test('requires the second factor after the mailed code, and accepts each code once', async () => {
  const { person, code } = await careful()
  const first = await begin(person.email)
  expect((await exchange(world.port, 'GET', '/v1/users/me', { cookie: first.cookie })).status).toBe(401)
  expect((await first.finish('000000')).status).toBe(401)
  const now = code(0)
  const done = await first.finish(now)
  expect(done).toMatchObject({ status: 200, body: { id: person.id } })
  expect((await exchange(world.port, 'GET', '/v1/users/me', { cookie: done.headers.get('set-cookie')!.split(';')[0]! })).status).toBe(200)
  expect((await first.finish(code(1))).status).toBe(401)
  expect((await (await begin(person.email)).finish(now)).status).toBe(401)
})

test('allows five second-factor attempts per sign-in within ten minutes, and accepts a recovery code once', async () => {
  const { person, code, recovery } = await careful()
  const tried = await begin(person.email)
  for (let round = 0; round < 5; round++) expect((await tried.finish('000000')).status).toBe(401)
  expect((await tried.finish(code(0))).status).toBe(401)
  const late = await begin(person.email)
  world.clock.advance(11 * minutes)
  expect((await late.finish(code(0))).status).toBe(401)
  expect((await (await begin(person.email)).finish(recovery[0]!.toLowerCase())).status).toBe(200)
  expect((await (await begin(person.email)).finish(recovery[0]!)).status).toBe(401)
})

test('confirms a second factor only in the session that started it, within ten minutes', async () => {
  const person = await world.person()
  const thief = { user_id: person.id, credential_id: person.id, email: person.email }
  const owner = { ...thief, credential_id: newId(world.clock.wall()) }
  const { platform, transact } = world
  const known = new Secret(decode((await transact((tx) => beginFactor(tx, platform, thief)))!.secret).toString('base64'))
  const now = () => codeAt(known, stepOf(world.clock.wall()))
  expect(await pendingFactor(world.api.postgres.db, platform, owner)).toBeNull()
  expect(await transact((tx) => confirmFactor(tx, platform, owner, now()))).toBeNull()
  world.clock.advance(11 * minutes)
  expect(await transact((tx) => confirmFactor(tx, platform, thief, now()))).toBeNull()
})

test('limits second-factor attempts per hour across all flows', async () => {
  const { person, code, recovery } = await careful()
  const { platform, transact } = world
  for (let round = 0; round < 20; round++) expect(await transact((tx) => endFactor(tx, platform, person.id, '000000'))).toBe(false)
  expect(await transact((tx) => endFactor(tx, platform, person.id, code(0)))).toBe(false)
  expect(await transact((tx) => endFactor(tx, platform, person.id, recovery[0]!))).toBe(false)
  world.clock.advance(61 * minutes)
  expect(await transact((tx) => endFactor(tx, platform, person.id, code(0)))).toBe(true)
})
