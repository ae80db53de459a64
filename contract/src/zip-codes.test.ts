import { expect, test } from 'vitest'
import { isZipCode, readState, states, statesOfZipCode } from './index.ts'

const every = Array.from({ length: 1000 }, (_, at) => String(at).padStart(3, '0'))

test.each([
  ['00501', 'NY'],
  ['02108', 'MA'],
  ['05501', 'MA'],
  ['10001', 'NY'],
  ['20001', 'DC'],
  ['20101', 'VA'],
  ['30301', 'GA'],
  ['33101', 'FL'],
  ['39901', 'GA'],
  ['60601', 'IL'],
  ['73301', 'TX'],
  ['75201', 'TX'],
  ['88510', 'TX'],
  ['89101', 'NV'],
  ['94105-1234', 'CA'],
  [' 96813 ', 'HI'],
  ['995011234', 'AK'],
])('finds the state of the ZIP code %s', (zip, state) => {
  expect(statesOfZipCode(zip)).toEqual([`US-${state}`])
})

test.each([
  ['06390', 'CT', 'NY'],
  ['83414', 'ID', 'WY'],
  ['42223', 'KY', 'TN'],
  ['02861', 'RI', 'MA'],
  ['86515', 'AZ', 'NM'],
])('finds both states of the prefix of %s', (zip, one, other) => {
  expect(statesOfZipCode(zip)).toEqual([`US-${one}`, `US-${other}`])
})

test('finds no state for territories, military mail, unused prefixes and other texts', () => {
  for (const zip of [
    '00901',
    '00801',
    '96910',
    '09001',
    '34001',
    '96201',
    '00001',
    '21301',
    '',
    '1000',
    '100011',
    'SW1A 1AA',
    '10001-12',
    '１０００１',
    '10001\n02108',
  ])
    expect(statesOfZipCode(zip), zip).toEqual([])
  expect(isZipCode('00901')).toBe(true)
})

test('covers every state, and names only known states', () => {
  const found = every.map((prefix) => statesOfZipCode(`${prefix}01`))
  expect([...new Set(found.flatMap(([state]) => state ?? []))].toSorted()).toEqual(states.US!.map((letters) => `US-${letters}`).toSorted())
  for (const state of found.flat()) expect(readState('US', state)).toBe(state)
  expect(found.filter((one) => one.length === 2)).toHaveLength(15)
  for (const one of found) expect(new Set(one).size).toBe(one.length)
  // 89 prefixes are unused, or those of territories and of military mail.
  expect(found.filter((one) => one.length === 0)).toHaveLength(89)
})
