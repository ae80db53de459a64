import { z } from 'zod'
import {
  failure,
  filter,
  merchant,
  named,
  NotPermitted,
  oneOf,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  strictResource,
  timestamp,
  uuid,
} from '../kit/index.ts'
import { maybe } from './customers.ts'

export const TestClockStatus = named('TestClockStatus', z.enum(['ready', 'advancing']))
export type TestClockStatus = z.output<typeof TestClockStatus>

/** A time of its own for some customers: renewals, trials and retries happen when it says so. */
export const TestClock = resource('TestClock', {
  ...stamps,
  id: uuid(),
  organization_id: uuid(),
  name: z.string().nullable(),
  now: timestamp().describe('The time that its customers live in. It stands still unless it is advanced.'),
  target: timestamp().nullable().describe('Where it is on its way to; null where it has arrived.'),
  status: TestClockStatus,
  customers_count: z.int().describe('How many customers live by it.'),
})
export type TestClock = z.output<typeof TestClock>

export const TestClockCreate = resource('TestClockCreate', {
  organization_id: uuid().nullish(),
  name: maybe(256),
  now: timestamp().nullish().describe('Where it starts: the present, unless said otherwise.'),
})

const aCentury = 3_155_760_000

/** To a moment, or by a span. */
export const TestClockAdvance = named(
  'TestClockAdvance',
  oneOf(strictResource('TestClockAdvanceTo', { to: timestamp().describe('Later than `now` of the clock.') }), {
    by_seconds: strictResource('TestClockAdvanceBy', { by_seconds: z.int().min(1).max(aCentury).describe('A day has 86400.') }),
  }),
)
export type TestClockAdvance = z.output<typeof TestClockAdvance>

export const SandboxOnly = failure('SandboxOnly', 403, 'Test clocks exist in the sandbox only: here time is what it is.')
export const ClockAlreadyAdvancing = failure('ClockAlreadyAdvancing', 409, 'This clock is on its way already. Wait until its status is `ready`.')

const read = merchant(['customers:read', 'customers:write'])
const write = merchant('customers:write')
const byId = z.object({ id: uuid() })

export const listTestClocks = operation({
  id: 'test-clocks:list',
  method: 'GET',
  path: '/v1/test-clocks/',
  summary: 'List test clocks',
  access: read,
  query: z.object({
    organization_id: filter(uuid()),
    ...pageQuery,
    sorting: sorting('TestClockSortProperty', ['created_at', 'name'], ['-created_at']),
  }),
  returns: page('TestClockPage', TestClock),
  fails: [SandboxOnly],
})

export const createTestClock = operation({
  id: 'test-clocks:create',
  method: 'POST',
  path: '/v1/test-clocks/',
  summary: 'Create a test clock',
  description: 'Sandbox only. Create customers with its id as `test_clock_id`, and whatever they buy lives in its time.',
  access: write,
  body: TestClockCreate,
  returns: TestClock,
  status: 201,
  fails: [NotPermitted, SandboxOnly],
})

export const getTestClock = operation({
  id: 'test-clocks:get',
  method: 'GET',
  path: '/v1/test-clocks/{id}',
  summary: 'Get a test clock',
  access: read,
  params: byId,
  returns: TestClock,
  fails: [SandboxOnly, ResourceNotFound],
})

export const advanceTestClock = operation({
  id: 'test-clocks:advance',
  method: 'POST',
  path: '/v1/test-clocks/{id}/advance',
  summary: 'Advance a test clock',
  description: 'Everything that falls due on the way happens, in its order. The answer comes at once; it has arrived when `status` is `ready` again.',
  access: write,
  params: byId,
  body: TestClockAdvance,
  returns: TestClock,
  fails: [NotPermitted, SandboxOnly, ResourceNotFound, ClockAlreadyAdvancing],
})
