import { expect, test } from 'vitest'
import { readAddresses } from './addresses.ts'

test.each<[string, string[], string[]]>([
  ['', [], []],
  ['ada@people.test', ['ada@people.test'], []],
  [
    'ada@people.test bob@people.test\ncyd@people.test;dan@people.test,eve@people.test',
    ['ada@people.test', 'bob@people.test', 'cyd@people.test', 'dan@people.test', 'eve@people.test'],
    [],
  ],
  ['Ada Lovelace <ada@people.test>, "Bob" <mailto:bob@people.test>.', ['ada@people.test', 'bob@people.test'], []],
  ['ada@people.test, ADA@people.test', ['ada@people.test'], []],
  ['ada@people.test\nBob Byrne\n', ['ada@people.test'], ['Bob Byrne']],
  ['ada@\t@people.test', ['ada@', '@people.test'], []],
  ['name\temail\r\nAda\tada@people.test', ['ada@people.test'], ['name', 'email', 'Ada']],
])('extracts the e-mail addresses from %j, and returns all other words separately', (text, addresses, others) =>
  expect(readAddresses(text)).toEqual({ addresses, others }),
)
