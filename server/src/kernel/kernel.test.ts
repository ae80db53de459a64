import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { newId } from './ids.ts'
import { nameWithoutLinks } from './texts.ts'
import { checksum, Hasher, hintOf, newToken, prefixOf, randomText, readToken, sameText, Secret, tokenKinds, tokenPatterns, type TokenKind } from './secrets.ts'

describe('ids', () => {
  test('creates ids that are valid UUIDs of version 4 and sort by time', () => {
    const early = newId(new Date(1_700_000_000_000))
    const late = newId(new Date(1_700_000_000_001))
    expect(early).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(early.slice(0, 13) < late.slice(0, 13)).toBe(true)
    expect(new Set(Array.from({ length: 10_000 }, () => newId(new Date(0)))).size).toBe(10_000)
  })
})

describe('tokens', () => {
  test.each([
    ['a'.repeat(37), '2sN54l'],
    ['A'.repeat(37), '2qTV0e'],
    ['0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZa', '33EDWO'],
  ])('computes the checksum of a token with the random part %s: %s', (random, sum) => expect(checksum(random)).toBe(sum))

  const kinds = Object.keys(tokenKinds) as TokenKind[]

  test('creates tokens that name their kind and environment, and match exactly one secret scanning pattern', () => {
    for (const kind of kinds)
      for (const environment of ['sandbox', 'production'] as const) {
        const token = newToken(kind, environment).reveal()
        expect(token.startsWith(prefixOf(kind, environment))).toBe(true)
        expect(token.length).toBe(prefixOf(kind, environment).length + 43)
        expect(readToken(token)).toEqual({ kind, environment })
        const matching = tokenPatterns.filter(({ pattern }) => new RegExp(`^${pattern}$`).test(token))
        expect(matching.map(({ type }) => type)).toEqual([tokenKinds[kind].report])
      }
  })

  test('recognises a token as damaged by its checksum if one character changes', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 42 }),
        fc.constantFrom(...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'.split('')),
        (at, letter) => {
          const token = newToken('organization', 'sandbox').reveal()
          const start = prefixOf('organization', 'sandbox').length + at
          const changed = token.slice(0, start) + letter + token.slice(start + 1)
          expect(readToken(changed) === 'damaged').toBe(changed !== token)
        },
      ),
    )
    expect(readToken('polar_oat_something')).toBe('foreign')
    expect(readToken(newToken('personal', 'sandbox').reveal().slice(0, -1))).toBe('damaged')
  })

  test('never shows the value of a secret that is printed or serialised', () => {
    const secret = new Secret('hunter2')
    expect([String(secret), JSON.stringify({ secret }), inspect({ secret }), secret.toString()].join()).not.toContain('hunter2')
    expect(hintOf(newToken('organization', 'sandbox'))).toMatch(/^bursar_test_oat_….{4}$/)
  })

  test('finds a token by its old hash after the pepper is rotated', () => {
    const old = { version: 1, key: Buffer.alloc(32, 1) }
    const secret = new Secret('x')
    const stored = new Hasher([old]).hash(secret)
    const rotated = new Hasher([{ version: 2, key: Buffer.alloc(32, 2) }, old])
    expect(rotated.candidates(secret)).toContain(stored)
    expect(rotated.hash(secret)).not.toBe(stored)
    expect(rotated.current).toBe(2)
  })

  test('creates random text with uniformly distributed characters', () => {
    const counts = new Map<string, number>()
    for (const letter of randomText(62_000, '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz')) counts.set(letter, (counts.get(letter) ?? 0) + 1)
    expect(counts.size).toBe(62)
    // Each character is expected 1000 times. Six standard deviations are 190.
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(200)
    expect(sameText('a', 'a')).toBe(true)
    expect(sameText('a', 'b')).toBe(false)
  })
})

test('keeps ordinary names for mails to other people, and drops names that mail programs would turn into links', () => {
  for (const name of ['Works', 'Dr. Ada Lovelace', 'J.R. Smith & Sons Ltd.', 'Łódź Sp. z o.o.', 'Node 24.1']) expect(nameWithoutLinks(name)).toBe(name)
  for (const name of ['see evil.example', 'http://10.0.0.1', '//evil', 'mail me@evil', 'www.evil.test now', 'évil.рф', 'x'.repeat(61), null])
    expect(nameWithoutLinks(name)).toBeNull()
})
