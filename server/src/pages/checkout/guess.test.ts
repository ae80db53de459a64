import { expect, test } from 'vitest'
import { guessCountry } from './guess.ts'

test.each([
  ['de-AT,de;q=0.9,en;q=0.8', 'AT'],
  ['en-us', 'US'],
  ['zh-Hant-TW,zh;q=0.9', 'TW'],
  ['de-AT,de-AT;q=0.9', 'AT'],
  // No region.
  ['de', null],
  ['', null],
  [undefined, null],
  ['*', null],
  ['en-001', null],
  // Several regions.
  ['de-DE,de;q=0.9,en-US;q=0.8', null],
  // A region without sales, and no country.
  ['ru-RU,ru;q=0.9', null],
  ['en-ZZ', null],
])('guesses the country for Accept-Language %j: %j', (header, country) => expect(guessCountry(header)).toBe(country))
