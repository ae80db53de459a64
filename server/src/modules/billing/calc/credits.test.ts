import { expect, test } from 'vitest'
import { allot, unusedOf, withheldOf } from './credits.ts'

const day = (number: number) => new Date(Date.UTC(2026, 5, number))
const moment = { currency: 'usd', now: day(16), end: new Date(Date.UTC(2026, 6, 1)) }
const whole = { amount: 3000, from: day(1), credits: [] }

test('calculates the unused part of a line as its share of the remaining time', () => {
  expect(unusedOf(whole, moment)).toBe(1500)
  expect(unusedOf({ amount: 1000, from: day(16), credits: [] }, moment)).toBe(1000)
  expect(unusedOf(whole, { ...moment, now: moment.end })).toBe(0)
})

test('rounds the unused part up once, to a payable amount', () => {
  expect(unusedOf({ ...whole, amount: 1001 }, moment)).toBe(501)
  expect(unusedOf({ ...whole, amount: 100_100 }, { ...moment, currency: 'isk' })).toBe(50_100)
})

test('reduces the unused part by a credit, from the time of the credit on', () => {
  // On the 11th 20.00 of 30.00 are unused, and a credit of 10.00 leaves 10.00. On the 16th three quarters of that are
  // left: 7.50.
  expect(unusedOf({ ...whole, credits: [{ amount: 1000, at: day(11) }] }, moment)).toBe(750)
  expect(unusedOf({ ...whole, credits: [{ amount: 1500, at: day(16) }] }, moment)).toBe(0)
  expect(unusedOf({ ...whole, credits: [{ amount: 9000, at: day(16) }] }, moment)).toBe(0)
})

test('splits a credit over its lines in order, up to their billed amounts', () => {
  const later = { amount: 400, from: day(16), credits: [] }
  const shares = (amount: number) => allot(amount, [later, whole], moment).map((share) => [share.time === later ? 'later' : 'whole', share.amount])
  expect(shares(300)).toEqual([['later', 300]])
  expect(shares(1000)).toEqual([
    ['later', 400],
    ['whole', 600],
  ])
  expect(shares(5000)).toEqual([
    ['later', 400],
    ['whole', 1500],
  ])
})

test('withholds a credit in proportion to the refunded part of its order, rounded in favour of the seller', () => {
  expect(withheldOf(1500, { value: 3000, lost: 0 }, 'usd')).toBe(0)
  expect(withheldOf(1500, { value: 3000, lost: 1000 }, 'usd')).toBe(500)
  expect(withheldOf(100, { value: 3, lost: 1 }, 'usd')).toBe(34)
  expect(withheldOf(1500, { value: 3000, lost: 3000 }, 'usd')).toBe(1500)
  expect(withheldOf(1500, { value: 3000, lost: 4000 }, 'usd')).toBe(1500)
  expect(withheldOf(50_000, { value: 300_000, lost: 100_000 }, 'isk')).toBe(16_700)
})
