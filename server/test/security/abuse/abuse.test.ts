import { costKinds, operations } from '@bursar/contract'
import { expect, test } from 'vitest'
import { operationsOf } from './attacker.ts'
import { attacks } from './attacks.ts'
import { p95 } from './bystander.ts'

test('attacks with operations of every declared cost', () => {
  for (const cost of costKinds) expect([cost, operationsOf(cost).length > 0]).toEqual([cost, true])
  expect(Object.keys(attacks)).toEqual([...costKinds, 'webhooks', 'anonymous', 'connections', 'pages'])
})

test('uses an operation with every cost that it declares, and never one that costs nothing', () => {
  const ids = (cost: (typeof costKinds)[number]) => operationsOf(cost).map(({ id }) => id)
  expect(ids('mail')).toContain('auth:request_code')
  expect(ids('jobs')).toContain('events:ingest')
  expect(ids('polls')).toEqual(['webhooks:list_events', 'live:stream'])
  expect(costKinds.filter((cost) => ids(cost).includes('customer_portal:orders:confirm_retry_payment'))).toEqual(['mail', 'money', 'jobs'])
  const harmless = operations.filter(({ costs }) => costs === 'none').map(({ id }) => id)
  expect(costKinds.flatMap(ids).filter((id) => harmless.includes(id))).toEqual([])
})

test('reads the 95th percentile as the value that 95 of 100 delays do not exceed', () => {
  const delays = Array.from({ length: 100 }, (_, at) => at + 1)
  expect(p95(delays)).toBe(95)
  expect(p95(delays.toReversed().slice(80))).toBe(19)
  expect(p95([7])).toBe(7)
})
