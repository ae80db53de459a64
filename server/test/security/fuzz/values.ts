import type { Chance } from '../../simulation/years/stories.ts'
import { Literal } from './drafts.ts'
import { uuidOf, type Schema } from './schemas.ts'

const long = (length: number, letter = 'x') => letter.repeat(length)
const surrogate = '\ud800'
const rightToLeft = '\u202e\u2067\u200f'

/** Texts that are hostile in any place. */
export const texts: readonly (() => string)[] = [
  () => '',
  () => ' ',
  () => '\t\r\n',
  () => '\0',
  () => 'a\0b',
  () => surrogate,
  () => `a\udfffb`,
  () => `${rightToLeft}evil`,
  () => '\ufeffbom',
  () => '\u2028\u2029',
  () => '\u0007\u001b[31m',
  () => '__proto__',
  () => 'constructor',
  () => 'hasOwnProperty',
  () => 'toString',
  () => "' or 1=1 --",
  () => '%00',
  () => '%s%n',
  () => '../../etc/passwd',
  () => '<script>alert(1)</script>',
  () => '{{7*7}}',
  () => 'null',
  () => 'undefined',
  () => 'NaN',
  () => '-0',
  () => '1e400',
  () => '9223372036854775808',
  () => '٣٤',
  () => 'ﬁİıß',
  () => '👩‍👩‍👧‍👦'.repeat(40),
  () => 'é'.normalize('NFD').repeat(300),
  () => long(300),
  () => long(70_000),
  () => long(20_000, ' '),
  () => long(20_000, '/'),
  () => long(20_000, '.'),
  () => long(10_000, 'a@'),
  // Expressions that backtrack are slow if the end does not fit.
  () => `${long(20_000, ' ')}x`,
  () => `${long(20_000, 'a.')}!`,
  () => `${long(20_000, '-')}!`,
  () => `${long(20_000, '\n')}!`,
  () => `${long(20_000, '0')}!`,
  () => `https://${long(3000, 'a.')}example`,
  () => `https://user:pass@example.com:99999/`,
  () => 'javascript:alert(1)',
  () => `${long(320, 'a')}@people.test`,
  () => 'a@b',
  () => '"quoted"@people.test',
  () => `=HYPERLINK("x")`,
]

const uuids = (chance: Chance): readonly string[] => {
  const id = uuidOf(chance)
  return [
    id,
    id.toUpperCase(),
    id.replaceAll('-', ''),
    `{${id}}`,
    `urn:uuid:${id}`,
    ` ${id}`,
    `${id}\n`,
    `${id}0`,
    id.slice(1),
    `${id.slice(0, -1)}g`,
    id.replace('-4', '-0'),
    id.replace('-4', '-f'),
    '00000000-0000-0000-0000-000000000000',
    'ffffffff-ffff-ffff-ffff-ffffffffffff',
    '00000000-0000-1000-0000-000000000000',
    id.replace(/[0-9]/, '０'),
  ]
}

const dates = [
  '0000-01-01T00:00:00Z',
  '0000-12-31T23:59:59+23:59',
  '0001-01-01T00:00:00Z',
  '1969-12-31T23:59:59.999999999Z',
  '9999-12-31T23:59:59.999Z',
  '9999-12-31T23:59:59-23:59',
  '+010000-01-01T00:00:00Z',
  '+275760-09-13T00:00:00.001Z',
  '-271821-04-20T00:00:00Z',
  '294277-01-01T00:00:00Z',
  '2026-02-29T00:00:00Z',
  '2024-02-29T24:00:00Z',
  '2026-06-30T23:59:60Z',
  '2026-13-01T00:00:00Z',
  '2026-01-01',
  '2026-01-01T00:00:00',
  '2026-01-01 00:00:00Z',
  '2026-01-01T00:00Z',
  '2026-01-01T00:00:00+24:00',
  '20260101T000000Z',
  '2026-W01-1',
  '1767225600',
  'now',
  'infinity',
  '-infinity',
]

/** Numbers at the bounds of integers and of double precision. */
export const numbers: readonly (number | Literal)[] = [
  0,
  new Literal('-0'),
  -1,
  1,
  0.5,
  -0.1,
  0.1 + 0.2,
  127,
  32_768,
  2_147_483_647,
  2_147_483_648,
  -2_147_483_649,
  4_294_967_296,
  Number.MAX_SAFE_INTEGER,
  Number.MAX_SAFE_INTEGER + 1,
  -Number.MAX_SAFE_INTEGER - 1,
  new Literal('9223372036854775807'),
  new Literal('9223372036854775808'),
  new Literal('-9223372036854775809'),
  new Literal('18446744073709551616'),
  1e21,
  1e300,
  new Literal('1e400'),
  new Literal('-1e400'),
  new Literal('1e-400'),
  new Literal('1.0'),
  new Literal('1E0'),
  new Literal('0.00000000000000000000000000000000000000000000000001'),
  new Literal(`1${long(400, '0')}`),
  Number.MIN_VALUE,
]

/** Values of other types than most fields have. */
const others = (value: unknown): readonly unknown[] => [
  null,
  true,
  false,
  0,
  1,
  '',
  'text',
  [],
  {},
  [value],
  [[]],
  [null],
  { value },
  { length: 1e9 },
  { toJSON: 1 },
  [value, value],
]

/** Texts around the length limits. Astral characters count twice in UTF-16. */
const lengths = ({ minLength, maxLength }: Schema): readonly string[] => [
  ...(minLength === undefined ? [] : [long(Math.max(0, minLength - 1)), long(minLength)]),
  ...(maxLength === undefined
    ? []
    : [long(maxLength), long(maxLength + 1), '😀'.repeat(maxLength), '😀'.repeat(Math.ceil(maxLength / 2)), long(maxLength, 'é')]),
]

const bounds = ({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Schema): readonly number[] =>
  [minimum, maximum, exclusiveMinimum, exclusiveMaximum].flatMap((bound) => (bound === undefined ? [] : [bound - 1, bound, bound + 1, bound + 0.5]))

/** Picks a hostile value for a place with this schema and this valid value. */
export const hostileValue = (schema: Schema, value: unknown, chance: Chance): unknown => {
  if (chance.below(4) === 0) return chance.pick(others(value))
  switch (schema.type) {
    case 'integer':
    case 'number':
      return chance.pick([...bounds(schema), ...bounds(schema), ...numbers, '1', String(value)])
    case 'boolean':
      return chance.pick([0, 1, 'true', 'false', 'yes', '', null, []])
    case 'string': {
      const special =
        schema.format === 'uuid'
          ? uuids(chance)
          : schema.format === 'date-time' || schema.format === 'date'
            ? dates
            : schema.enum
              ? caseChanges(schema.enum)
              : lengths(schema)
      return special.length > 0 && chance.below(2) === 0 ? chance.pick(special) : chance.pick(texts)()
    }
    default:
      return chance.pick([...numbers, ...texts.map((make) => make())])
  }
}

const caseChanges = (values: readonly unknown[]): readonly string[] =>
  values.flatMap((value) => [String(value), String(value).toUpperCase(), ` ${String(value)}`, `${String(value)}\0`])
