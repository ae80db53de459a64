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

/** A test clock: the business time of some sandbox customers. Their renewals, trials and payment retries follow it. */
export const TestClock = resource('TestClock', {
  ...stamps,
  id: uuid(),
  organization_id: uuid(),
  name: z.string().nullable(),
  now: timestamp().describe('The current time of the clock and its customers. It changes only when the clock is advanced.'),
  target: timestamp().nullable().describe('The time that the clock is advancing to; null if it is not advancing.'),
  status: TestClockStatus,
  customers_count: z.int().describe('How many customers use the clock.'),
})
export type TestClock = z.output<typeof TestClock>

export const TestClockCreate = resource('TestClockCreate', {
  organization_id: uuid().nullish(),
  name: maybe(256),
  now: timestamp().nullish().describe('The start time. Defaults to the present.'),
})

const aCentury = 3_155_760_000

/** Advances the clock to a point in time, or by a duration. */
export const TestClockAdvance = named(
  'TestClockAdvance',
  oneOf(strictResource('TestClockAdvanceTo', { to: timestamp().describe('Later than `now` of the clock.') }), {
    by_seconds: strictResource('TestClockAdvanceBy', { by_seconds: z.int().min(1).max(aCentury).describe('A day is 86400.') }),
  }),
)
export type TestClockAdvance = z.output<typeof TestClockAdvance>

export const SandboxOnly = failure('SandboxOnly', 403, 'Test clocks exist in the sandbox only. This is production.')
export const ClockAlreadyAdvancing = failure('ClockAlreadyAdvancing', 409, 'This clock is already advancing. Wait until its status is `ready`.')

const read = merchant(['customers:read', 'customers:write'])
const write = merchant('customers:write')
const byId = z.object({ id: uuid() })

export const listTestClocks = operation({
  id: 'test-clocks:list',
  method: 'GET',
  path: '/v1/test-clocks/',
  summary: 'List test clocks',
  access: read,
  costs: 'none',
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
  description: 'Sandbox only. Create customers with its id as `test_clock_id`: their purchases then follow the time of the clock.',
  access: write,
  costs: 'none',
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
  costs: 'none',
  params: byId,
  returns: TestClock,
  fails: [SandboxOnly, ResourceNotFound],
})

export const advanceTestClock = operation({
  id: 'test-clocks:advance',
  method: 'POST',
  path: '/v1/test-clocks/{id}/advance',
  summary: 'Advance a test clock',
  description: 'Runs everything that falls due until then, in order. The answer comes at once; the clock has arrived when `status` is `ready` again.',
  access: write,
  costs: ['mail', 'money', 'jobs'],
  params: byId,
  body: TestClockAdvance,
  returns: TestClock,
  fails: [NotPermitted, SandboxOnly, ResourceNotFound, ClockAlreadyAdvancing],
})
