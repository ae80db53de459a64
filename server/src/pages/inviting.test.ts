import { assignPortalSeat } from '@bursar/contract'
import { connect } from '@bursar/contract/client'
import { expect, test } from 'vitest'
import { inviteAll } from './inviting.ts'

const key = { subscription_id: '00000000-0000-4000-8000-000000000001' }

/** An API that answers invitations with the given responses in order, and then with success. */
const answering = (...answers: readonly (readonly [number, string?])[]) => {
  const asked: string[] = []
  const api = connect(async ({ url, body }) => {
    expect(url).toBe(assignPortalSeat.path)
    asked.push((JSON.parse(body!) as { email: string }).email)
    const [status, error] = answers[asked.length - 1] ?? [201]
    return { status, headers: new Headers({ 'content-type': 'application/json' }), text: JSON.stringify({ error, member: null }) }
  })
  return { api, asked }
}
const many = (count: number) => Array.from({ length: count }, (_, at) => `p${at}@people.test`)

test('reports a result for every piece of the pasted text: invited, already seated, invalid address or no address', async () => {
  const { api } = answering([201], [400, 'SeatAlreadyAssigned'], [422], [403, 'NotPermitted'])
  const { people, halted } = await inviteAll(api, key, 'a@x.test, b@x.test, c@, d@x.test, nobody')
  expect(people.map(({ address, result }) => `${address} ${result}`)).toEqual([
    'a@x.test invited',
    'b@x.test has_one',
    'c@ no_address',
    'd@x.test refused',
    'nobody no_address',
  ])
  expect(halted).toBeNull()
})

test.each([
  [400, 'SeatNotAvailable', 'full', 'no_seat'],
  [429, 'TooManyRequests', 'wait', 'not_asked'],
  [503, 'ServiceUnavailable', 'wait', 'not_asked'],
  [401, 'invalid_token', 'signed_out', 'not_asked'],
] as const)('stops inviting after the response %i %s, and lists the remaining addresses', async (status, error, why, result) => {
  const { api, asked } = answering([201], [status, error])
  const { people, halted } = await inviteAll(api, key, many(4).join('\n'))
  expect(asked).toHaveLength(2)
  expect(halted).toBe(why)
  expect(people.map((one) => one.result)).toEqual(['invited', result, result, result])
})

test('invites fifty addresses per form, and lists the remaining ones', async () => {
  const { api, asked } = answering()
  const { people, halted } = await inviteAll(api, key, many(53).join(' '))
  expect(asked).toHaveLength(50)
  expect(halted).toBe('at_once')
  expect(people.filter((one) => one.result === 'not_asked').map(({ address }) => address)).toEqual(many(53).slice(50))
})
