import { expect, test } from 'vitest'
import { usageCsv, withFewPlots } from './usage.page.ts'

const days = [
  { timestamp: '2026-06-14T18:15:00.000Z', quantity: 2.5 },
  { timestamp: '2026-06-15T18:15:00.000Z', quantity: 0 },
]

test('writes days by the clock of the time zone, and numbers without grouping', () => {
  expect(usageCsv({ timezone: 'Asia/Kathmandu' }, { name: 'API requests', days })).toBe('Day,"API requests"\r\n2026-06-15,2.5\r\n2026-06-16,0\r\n')
  expect(usageCsv({ timezone: 'Factory' }, { name: 'x', days: days.slice(1) })).toBe('Day,"x"\r\n2026-06-15,0\r\n')
})

test('quotes the name of the meter, and a spreadsheet does not compute it', () => {
  expect(usageCsv({ timezone: 'UTC' }, { name: 'a "b", c', days: [] })).toBe('Day,"a ""b"", c"\r\n')
  for (const name of ['=1+1', '+1', '-1', '@sum', '|cmd', '%0a', '  =1', '\u00a0=1', '\uff1d1', '\uff0b1', '\uff0d1', '\uff20sum'])
    expect(usageCsv({ timezone: 'UTC' }, { name, days: [] })).toBe(`Day,"'${name}"\r\n`)
  for (const name of ['\t', '\r', '\n']) expect(usageCsv({ timezone: 'UTC' }, { name: `${name}=1`, days: [] })).toBe(`Day,"'${name}'=1"\r\n`)
})

test('keeps the days of the first eight meters only, so that a page stays small', () => {
  const meters = Array.from({ length: 12 }, (_, at) => ({ name: `meter ${at}`, days }))
  const shown = withFewPlots({ at: '', timezone: 'UTC', meters: meters as never }).meters
  expect(shown.map((meter) => meter.days.length)).toEqual([2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0])
  expect(shown).toHaveLength(12)
})
