import { listOrganizations, operations, type Operation } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { exchange, openWorld, type World } from '../../test/harness/world.ts'
import { ignoredNames } from './ignored.ts'

let world: World
let token: string
let organization: Awaited<ReturnType<World['organization']>>
beforeAll(async () => {
  world = await openWorld()
  organization = await world.organization()
  token = (await organization.token()).secret.reveal()
})
afterAll(() => world.close())

const send = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
  exchange(
    world.port,
    method,
    path,
    { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    body === undefined ? undefined : JSON.stringify(body),
  )
const product = { name: 'Course', prices: [{ amount_type: 'fixed', price_amount: 1000 }] }

describe('unknown names in a request', () => {
  test('lists unknown names in the header Bursar-Ignored, each with the most similar known name', async () => {
    const listed = await send('GET', '/v1/products/?limitt=5&page=1&colour=red&metadata[anything]=x')
    expect([listed.status, listed.headers.get('bursar-ignored')]).toEqual([200, 'query.limitt (limit?), query.colour'])
    const made = await send('POST', '/v1/products/?dry_run=1', {
      ...product,
      descripton: 'private words',
      metadata: { nmae: 'free', 'any thing': 1 },
      prices: [{ amount_type: 'fixed', price_amount: 1000, priceCurrency: 'eur', minimum_amount: 5 }],
    })
    expect([made.status, made.headers.get('bursar-ignored')]).toEqual([
      201,
      'query.dry_run, body.prices[0].priceCurrency (price_currency?), body.prices[0].minimum_amount, body.descripton (description?)',
    ])
    expect((await send('POST', '/v1/products/', product)).headers.has('bursar-ignored')).toBe(false)
  })

  test('lists unknown names for rejected requests too', async () => {
    const refused = await send('POST', '/v1/products/', { ...product, name: undefined, nmae: 'Course' })
    expect([refused.status, refused.headers.get('bursar-ignored')]).toEqual([422, 'body.nmae (name?)'])
    const absent = await send('GET', `/v1/products/${organization.id}?expand=prices`)
    expect([absent.status, absent.headers.get('bursar-ignored')]).toEqual([404, 'query.expand'])
  })

  test('sanitises unknown names for the header, omits their values, and lists at most ten names in 500 bytes', async () => {
    const odd = await send('PATCH', `/v1/organizations/${organization.id}`, { 'ein Gruß\r\nset-cookie: a=b, c (d)': 'value-of-it', ['x'.repeat(300)]: 1 })
    expect(odd.status).toBe(200)
    expect(odd.headers.get('bursar-ignored')).toBe(`body.ein_Gru___set-cookie:_a_b__c__d_, body.${'x'.repeat(64)}...`)
    expect(odd.headers.has('set-cookie')).toBe(false)
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`unknown_${at}`, at]))
    const told = (await send('PATCH', `/v1/organizations/${organization.id}`, many)).headers.get('bursar-ignored')!
    expect(told.split(', ')).toHaveLength(11)
    expect(told).toMatch(/^body\.unknown_0, .*body\.unknown_9, \.\.\.$/)
    const long = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`${at}${'y'.repeat(90)}`, at]))
    expect((await send('PATCH', `/v1/organizations/${organization.id}`, long)).headers.get('bursar-ignored')!.length).toBeLessThanOrEqual(500)
  })

  test('exposes the header Bursar-Ignored to pages of other origins', async () => {
    const { headers } = await exchange(world.port, 'GET', '/v1/customer-portal/organizations/nobody?limitt=1', { origin: 'https://shop.test' })
    expect(headers.get('bursar-ignored')).toBe('query.limitt')
    expect(headers.get('access-control-expose-headers')).toContain('bursar-ignored')
  })

  test('searches only a bounded part of a large body for unknown names', () => {
    const create = operations.find(({ id }) => id === 'products:create') as Operation
    const body = { ...product, prices: Array.from({ length: 10_000 }, () => ({ amount_type: 'fixed', price_amount: 1 })), last: 1 }
    let reads = 0
    const counting = new Proxy(body.prices[0]!, {
      ownKeys: (target) => {
        reads++
        return Reflect.ownKeys(target)
      },
    })
    body.prices = body.prices.map(() => counting)
    expect(ignoredNames(create, { query: {}, body })).toBeUndefined()
    expect(reads).toBeLessThanOrEqual(2000)
    expect(ignoredNames(listOrganizations, { query: {}, body: undefined })).toBeUndefined()
  })
})

describe('validation errors with the allowed values', () => {
  const problems = async (answer: Promise<{ status: number; text: string }>) => {
    const { status, text } = await answer
    expect(status).toBe(422)
    return (JSON.parse(text) as { detail: { loc: unknown[]; type: string; msg: string; ctx?: unknown }[] }).detail
  }

  test('reports a malformed date as one error', async () => {
    expect(await problems(send('GET', '/v1/webhooks/deliveries?start_timestamp=yesterday'))).toMatchObject([
      { loc: ['query', 'start_timestamp'], type: 'datetime_parsing', msg: 'Expected a date and time with offset, ISO 8601.' },
    ])
    expect(await problems(send('GET', '/v1/members/?customer_id=nobody'))).toHaveLength(1)
    expect((await send('GET', '/v1/webhooks/deliveries?start_timestamp=&http_code_class=&succeeded=')).status).toBe(200)
  })

  test('lists the allowed types for an unknown union type', async () => {
    const [unknown] = await problems(send('POST', '/v1/products/', { ...product, prices: [{ amount_type: 'fixd', price_amount: 1 }] }))
    expect(unknown).toMatchObject({
      loc: ['body', 'prices', 0, 'amount_type'],
      type: 'union_tag_invalid',
      msg: 'Expected one of: fixed, custom, seat_based, metered_unit. Did you mean fixed?',
      ctx: { discriminator: 'amount_type', expected_tags: 'fixed, custom, seat_based, metered_unit' },
    })
    const [absent] = await problems(send('POST', '/v1/products/', { ...product, prices: [{ price_amount: 1 }] }))
    expect(absent).toMatchObject({ type: 'union_tag_not_found', msg: 'Required: one of: fixed, custom, seat_based, metered_unit.' })
  })

  test('names every field that can stand for a missing one, and the allowed values of a missing one', async () => {
    const [absent] = await problems(send('POST', '/v1/events/ingest', { events: [{ name: 'call' }] }))
    expect(absent).toEqual({ loc: ['body', 'events', 0, 'customer_id'], type: 'missing', msg: 'Required: customer_id or external_customer_id.' })
    const [format] = await problems(send('POST', '/v1/webhooks/endpoints', { url: 'https://shop.example/hooks', events: ['order.paid'] }))
    expect(format).toMatchObject({ loc: ['body', 'format'], type: 'missing', msg: 'Required: one of: raw, discord, slack.' })
  })

  test('says once what a value may be, if several types are allowed', async () => {
    const metadata = (value: unknown) => problems(send('POST', '/v1/products/', { ...product, metadata: { plan: value } }))
    expect(await metadata(['a'])).toEqual([
      { loc: ['body', 'metadata', 'plan'], type: 'value_error', msg: 'Expected text, a number or true or false, received a list.', input: ['a'] },
    ])
    expect(await metadata('x'.repeat(501))).toMatchObject([{ type: 'string_too_long', msg: 'Expected at most 500 characters.' }])
    const cost = (amount: unknown) =>
      problems(send('POST', '/v1/events/ingest', { events: [{ name: 'call', external_customer_id: 'u', metadata: { _cost: { amount, currency: 'usd' } } }] }))
    expect(await cost('abc')).toMatchObject([{ loc: ['body', 'events', 0, 'metadata', '_cost', 'amount'], type: 'string_pattern_mismatch' }])
    expect(await cost(null)).toMatchObject([{ msg: 'Expected a number or text, received null.' }])
  })

  test('describes only the variant that a record resembles', async () => {
    const clause = (one: unknown) =>
      problems(send('POST', '/v1/meters/', { name: 'Calls', filter: { conjunction: 'and', clauses: [one] }, aggregation: { func: 'count' } }))
    const at = (...path: unknown[]) => ['body', 'filter', 'clauses', 0, ...path]
    expect(await clause({ property: 'name', operator: 'equals', value: 'call' })).toMatchObject([{ loc: at('operator'), type: 'enum' }])
    expect(await clause({ conjunction: 'and' })).toMatchObject([{ loc: at('clauses'), type: 'missing', msg: 'Required: a list.' }])
    expect(await clause({ conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: {} }] })).toMatchObject([
      { loc: at('clauses', 0, 'value'), msg: 'Expected text, a number or true or false, received a record.' },
    ])
    expect(await clause({})).toMatchObject([{ loc: at(), type: 'missing', msg: 'Required: property, operator, value; or conjunction, clauses.' }])
    expect(await clause(5)).toMatchObject([{ loc: at(), type: 'model_attributes_type', msg: 'Expected a record, received a number.' }])
  })

  test('describes only the selected price of an update', async () => {
    const { id } = JSON.parse((await send('POST', '/v1/products/', product)).text) as { id: string }
    const price = (one: unknown) => problems(send('PATCH', `/v1/products/${id}`, { prices: [one] }))
    const at = (...path: unknown[]) => ['body', 'prices', 0, ...path]
    expect(await price({ amount_type: 'fixed' })).toMatchObject([{ loc: at('price_amount'), type: 'missing' }])
    expect(await price({ amount_type: 'fixd' })).toMatchObject([{ loc: at('amount_type'), type: 'union_tag_invalid' }])
    expect(await price({ id: 'nothing' })).toMatchObject([{ loc: at('id'), type: 'uuid_parsing' }])
    expect(await price({})).toMatchObject([{ loc: at(), type: 'missing', msg: 'Required: amount_type; or id.' }])
  })

  test('rejects an upper-case currency and suggests the lower-case code', async () => {
    const [wrong] = await problems(send('POST', '/v1/products/', { ...product, prices: [{ ...product.prices[0], price_currency: 'USD' }] }))
    expect(wrong).toMatchObject({ type: 'enum', msg: expect.stringMatching(/^Expected one of: aed, .* Did you mean usd\?$/) as string })
  })

  test("lists the supported API versions and the client's import in the error for an unknown version", async () => {
    const { status, text } = await send('GET', '/v1/products/', undefined, { 'polar-version': '2025-01' })
    expect(status).toBe(404)
    expect(JSON.parse(text)).toEqual({
      error: 'UnknownVersion',
      detail: `The request asks for version "2025-01". Supported: 2026-04. With @polar-sh/sdk, import from '@polar-sh/sdk/2026-04'. Without it, leave the version header out to get 2026-04.`,
    })
  })
})
