import { CheckoutDraftSave, draftLimits } from '@bursar/contract'
import { expect, test } from 'vitest'
import { fitting } from './drafting.ts'

const accepts = (fields: Record<string, string>) => CheckoutDraftSave.safeParse({ fields }).success

test('leaves out the largest values until the draft fits, and keeps the order of the others', () => {
  const fields = {
    customer_name: 'Ada',
    'custom_field_data.story': 'x'.repeat(10_000),
    customer_email: 'ada@people.test',
    note: 'ä'.repeat(4_200),
    city: 'Berlin',
  }
  expect(accepts(fields)).toBe(false)
  expect(Object.entries(fitting(fields))).toEqual([
    ['customer_name', 'Ada'],
    ['customer_email', 'ada@people.test'],
    ['city', 'Berlin'],
  ])
})

test('uses all bytes of a draft', () => {
  // {"a":"b","note":"…"} has 19 bytes besides the text.
  const fields = { a: 'b', note: 'x'.repeat(draftLimits.bytes - 19) }
  expect(accepts(fields)).toBe(true)
  expect(fitting(fields)).toEqual(fields)
  const larger = { ...fields, note: `${fields.note}x` }
  expect(accepts(larger)).toBe(false)
  expect(fitting(larger)).toEqual({ a: 'b' })
})

test('keeps 64 fields, and answers to custom fields with the longest slug', () => {
  const many = Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`field_${at}`, 'x']))
  expect(Object.keys(fitting(many))).toHaveLength(draftLimits.fields)
  expect(accepts(fitting(many))).toBe(true)
  expect(accepts({ [`custom_field_data.${'s'.repeat(100)}`]: 'x' })).toBe(true)
})
