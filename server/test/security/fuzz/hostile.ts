import { gzipSync } from 'node:zlib'
import { requestLimits, type Operation } from '@bursar/contract'
import type { Chance } from '../../simulation/years/stories.ts'
import { bodyOf, pathOf, percent, toJson, type Draft } from './drafts.ts'
import { strangeText } from './mutations.ts'
import { schemaOf } from './schemas.ts'
import type { Attempt } from './wire.ts'

type Made = Partial<Pick<Attempt, 'method' | 'path' | 'body'>> & { readonly type?: string | undefined; readonly headers?: Record<string, string> }
type Way = (operation: Operation, draft: Draft, chance: Chance) => Made

const json = 'application/json'
const raw = (text: string | Buffer, type: string | undefined = json): Made => ({ body: typeof text === 'string' ? Buffer.from(text) : text, type })
const recordOf = ({ body }: Draft): Record<string, unknown> => (typeof body === 'object' && body !== null && !Array.isArray(body) ? { ...body } : {})
/** Writes the fields of a record without its closing brace, so that more fields can follow. */
const openText = (draft: Draft): string => {
  const text = toJson(recordOf(draft)).slice(0, -1)
  return text === '{' ? text : `${text},`
}
const times = (count: number, make: (at: number) => string): string => Array.from({ length: count }, (_, at) => make(at)).join()
const nested = (depth: number, open: string, close: string): string => `${open.repeat(depth)}${close.repeat(depth)}`

/** Returns a name of the body's fields, or one that does not exist. */
const nameIn = (operation: Operation, draft: Draft, chance: Chance): string => {
  const names = [...Object.keys(schemaOf(operation, 'body')?.schema.properties ?? {}), ...Object.keys(recordOf(draft))]
  return names.length > 0 ? chance.pick(names) : 'metadata'
}
const replaced = (operation: Operation, draft: Draft, chance: Chance, text: string): Made => {
  const name = nameIn(operation, draft, chance)
  const { [name]: _, ...rest } = recordOf(draft)
  return raw(`${openText({ ...draft, body: rest })}${JSON.stringify(name)}:${text}}`)
}

/** Large bodies. They take most of the time of a run, so they are rarer than the others. */
const large: Readonly<Record<string, Way>> = {
  'body above the limit': ({ bodyLimit = requestLimits.body_bytes }) => raw(`{"a":"${'x'.repeat(bodyLimit)}"}`),
  'text just below the limit': (operation, draft, chance) => replaced(operation, draft, chance, `"${'x'.repeat(1_000_000)}"`),
  'text of escapes': (operation, draft, chance) => replaced(operation, draft, chance, `"${'\\u0041'.repeat(100_000)}"`),
  '10,000 unknown keys': (_, draft) => raw(`${openText(draft)}${times(10_000, (at) => `"unknown_${at}":1`)}}`),
  '10,001 keys in a field': (operation, draft, chance) => replaced(operation, draft, chance, `{${times(10_001, (at) => `"k${at}":1`)}}`),
  '9,999 keys in a field': (operation, draft, chance) => replaced(operation, draft, chance, `{${times(9999, (at) => `"k${at}":{}`)}}`),
  '90,000 keys in a field': (operation, draft, chance) => replaced(operation, draft, chance, `{${times(90_000, (at) => `"k${at}":1`)}}`),
  '10,000 elements in a field': (operation, draft, chance) =>
    replaced(operation, draft, chance, `[${times(10_000, () => chance.pick(['1', '{}', '"x"', 'null']))}]`),
  '200,000 elements in a field': (operation, draft, chance) => replaced(operation, draft, chance, `[${times(200_000, () => '1')}]`),
  '10,000 elements as body': () => raw(`[${times(10_000, () => '{}')}]`),
  '100,000 levels': (operation, draft, chance) => replaced(operation, draft, chance, nested(100_000, '[', ']')),
  'unclosed levels': () => raw('[{"a":'.repeat(50_000)),
}

/** Bodies that are too deep, or not JSON. */
const bodies: Readonly<Record<string, Way>> = {
  '33 levels': (operation, draft, chance) => replaced(operation, draft, chance, nested(33, '[', ']')),
  '31 levels': (operation, draft, chance) => replaced(operation, draft, chance, `${'{"a":'.repeat(29)}1${'}'.repeat(29)}`),
  'duplicate keys': (_, draft) => raw(`${openText(draft)}${toJson(recordOf(draft)).slice(1)}`.replace(',}', '}')),
  'duplicate keys that differ': (operation, draft, chance) => raw(`${openText(draft)}${JSON.stringify(nameIn(operation, draft, chance))}:null}`),
  'prototype keys': (_, draft) => raw(`${openText(draft)}"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}`),
  'cut off': (_, draft, chance) => {
    const text = toJson(draft.body ?? {})
    return raw(text.slice(0, chance.below(text.length)))
  },
  'comma at the end': (_, draft) => raw(openText(draft).replace(/,?$/, ',}')),
  'no JSON': (_, __, chance) =>
    raw(chance.pick(['NaN', 'undefined', "{'a':1}", '{a:1}', '/* */{}', '1 2', '\0', '{"a":01}', '[1,]', '"\\x"', '"\\ud800"', 'true', '""', 'null', '1e400'])),
  'byte order mark': (_, draft) => raw(`\ufeff${toJson(draft.body ?? {})}`),
  'bytes that are not UTF-8': (_, draft) =>
    raw(Buffer.concat([Buffer.from(openText(draft)), Buffer.from('"a":"'), Buffer.from([0xc3, 0x28, 0xff, 0xed, 0xa0, 0x80]), Buffer.from('"}')])),
  'UTF-16': (_, draft) => raw(Buffer.from(toJson(draft.body ?? {}), 'utf16le'), 'application/json; charset=utf-16'),
  'empty body': () => raw(''),
  'blank body': () => raw('  \n '),
  'no body': () => ({ body: undefined, type: undefined }),
}

/** Headers that describe the body wrongly. */
const types: Readonly<Record<string, Way>> = {
  'wrong media type': (_, draft, chance) =>
    raw(
      toJson(draft.body ?? {}),
      chance.pick([
        'text/plain',
        'application/xml',
        'multipart/form-data',
        'multipart/form-data; boundary=x',
        'application/x-www-form-urlencoded',
        'application/json-patch+json',
        'application/JSON',
        'json',
        '*/*',
        'application/json;',
        'x'.repeat(2000),
        'application/json; charset=""',
        'application/json; charset=latin1',
        'application/json;charset=utf-7',
      ]),
    ),
  'no media type': (_, draft) => ({ body: Buffer.from(toJson(draft.body ?? {})), type: undefined }),
  compressed: (_, draft, chance) => ({
    body: gzipSync(toJson(draft.body ?? {})),
    type: json,
    headers: { 'content-encoding': chance.pick(['gzip', 'br', 'deflate', 'x', 'gzip, gzip']) },
  }),
  'announced as compressed': (_, draft) => ({ body: Buffer.from(toJson(draft.body ?? {})), type: json, headers: { 'content-encoding': 'gzip' } }),
  'compressed bomb': () => ({ body: gzipSync(Buffer.alloc(20_000_000, ' ')), type: json, headers: { 'content-encoding': 'gzip' } }),
}

/** Addresses and methods that fit no operation. */
const addresses: Readonly<Record<string, Way>> = {
  'wrong method': ({ method }, _, chance) => ({
    method: chance.pick(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND', 'SEARCH'].filter((other) => other !== method)),
  }),
  'bad percent-encoding in the path': (operation, draft, chance) => {
    const path = pathOf(operation, { ...draft, query: [] }).split('/')
    const at = 1 + chance.below(path.length - 1)
    return { path: path.with(at, `${path[at]}${chance.pick(['%', '%zz', '%ff', '%c0%ae', '%00', '%2e%2e', '%2f', '%5c', '%u0041', '%ed%a0%80'])}`).join('/') }
  },
  'bad percent-encoding in the query': (operation, draft, chance) => ({
    path: `${pathOf(operation, draft)}${draft.query.length > 0 ? '&' : '?'}${chance.pick(['a=%', 'limit=%zz', '%ff=1', 'cursor=%c0%ae', 'query=%00', 'limit=%ed%a0%80', '&&&', '=', '=1', 'limit', '?limit=1', 'a[=1', 'a]=1', '%5b%5d=1', 'page=1;limit=2'])}`,
  }),
  'many parameters': (operation, draft) => ({
    path: `${pathOf(operation, { ...draft, query: [] })}?${Array.from({ length: 1500 }, (_, at) => `a${at}=1`).join('&')}`,
  }),
  'many equal parameters': (operation, draft) => ({ path: `${pathOf(operation, { ...draft, query: [] })}?${'a&'.repeat(7500)}a` }),
  'long query': (operation, draft, chance) => ({
    path: `${pathOf(operation, { ...draft, query: [] })}?${chance.pick(['query', 'cursor', 'a', 'metadata[a]'])}=${'x'.repeat(15_000)}`,
  }),
  'too long': (operation, draft) => ({ path: `${pathOf(operation, draft)}?a=${'x'.repeat(20_000)}` }),
  'many slashes': (operation, draft, chance) => {
    const path = pathOf(operation, { ...draft, query: [] })
    return {
      path: chance.pick([
        `${path}${'/'.repeat(15_000)}`,
        path.replaceAll('/', '//'),
        `${path}/x`,
        `${path}/../..`,
        `//${path}`,
        `${path}${'/'.repeat(15_000)}x`,
      ]),
    }
  },
  'strange segment': (operation, draft, chance) => ({ path: `${pathOf(operation, { ...draft, query: [] })}/${percent(strangeText(chance).slice(0, 1000))}` }),
  'absolute address': (operation, draft) => ({ path: `http://evil.example${pathOf(operation, draft)}` }),
  'strange host': (_, __, chance) => ({ headers: { host: chance.pick(['evil.example', '', 'x'.repeat(2000), '127.0.0.1:99999', '[::1']) } }),
  'strange authorization': (_, __, chance) => ({
    headers: {
      authorization: chance.pick([
        '',
        'Bearer',
        'Bearer ',
        'Basic eDp5',
        'Basic !!',
        `Bearer ${'x'.repeat(7000)}`,
        'Bearer a b',
        'bearer x',
        'Digest x',
        'Bearer __proto__',
        'Bearer bursar_test_oat_é',
      ]),
    },
  }),
}

/** Makes a hostile request from a valid one. */
export const makeHostile = (operation: Operation, draft: Draft, chance: Chance): Attempt => {
  const carrying = { ...types, ...bodies, ...(chance.below(3) === 0 ? large : {}) }
  const ways = Object.entries({ ...addresses, ...(operation.body || chance.below(4) === 0 ? carrying : {}) })
  const [note, way] = chance.pick(ways)
  const usual = bodyOf(draft)
  const made = way(operation, draft, chance)
  const type = 'type' in made ? (made.type === undefined ? {} : { 'content-type': made.type }) : usual.type
  return {
    method: made.method ?? operation.method,
    path: made.path ?? pathOf(operation, draft),
    headers: { ...draft.headers, ...type, ...made.headers },
    body: 'body' in made ? made.body : usual.bytes,
    note,
  }
}
