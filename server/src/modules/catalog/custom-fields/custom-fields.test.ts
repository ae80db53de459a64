import { createCustomField, deleteCustomField, getCustomField, listCustomFields, updateCustomField } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const shop = async () => {
  const organization = await world.organization()
  return { organization, api: world.client({ token: (await organization.token()).secret }) }
}
const text = (slug: string) => ({ type: 'text' as const, slug, name: 'A question', properties: { max_length: 10 } })

test('creates, finds, updates and deletes a custom field of each type', async () => {
  const { api } = await shop()
  const bodies = [
    { type: 'text', slug: 'Text_Field', name: 'Text', properties: { textarea: true, min_length: 1, form_label: 'Say something' } },
    { type: 'number', slug: 'number', name: 'Number', properties: { ge: -5, le: 5 } },
    { type: 'date', slug: 'date', name: 'Date', properties: {} },
    { type: 'checkbox', slug: 'checkbox', name: 'Checkbox', properties: { form_help_text: 'Tick it' } },
    { type: 'select', slug: 'select', name: 'Select', properties: { options: [{ value: 'a', label: 'A' }] } },
  ] as const
  for (const body of bodies) {
    const made = await api.call(createCustomField, { body: { ...body, metadata: { kind: body.type } } as never })
    expect(made).toMatchObject({ type: body.type, slug: body.slug.toLowerCase(), properties: body.properties, metadata: { kind: body.type } })
    expect(await api.call(getCustomField, { params: { id: made.id } })).toEqual(made)
  }
  const listed = await api.call(listCustomFields, {})
  expect(listed.items.map(({ slug }) => slug)).toEqual(['checkbox', 'date', 'number', 'select', 'text_field'])
  expect((await api.call(listCustomFields, { query: { type: ['date', 'number'], query: 'E', sorting: '-slug' } })).items.map(({ slug }) => slug)).toEqual([
    'number',
    'date',
  ])
  const [checkbox] = listed.items
  const changed = await api.call(updateCustomField, {
    params: { id: checkbox!.id },
    body: { type: 'checkbox', slug: 'agreed', name: 'Agreed', properties: { form_label: 'I agree' } },
  })
  expect(changed).toMatchObject({ slug: 'agreed', name: 'Agreed', properties: { form_label: 'I agree' }, metadata: { kind: 'checkbox' } })
  expect((await api.send(deleteCustomField, { params: { id: checkbox!.id } })).status).toBe(204)
  expect((await api.send(getCustomField, { params: { id: checkbox!.id } })).status).toBe(404)
  expect((await api.send(deleteCustomField, { params: { id: checkbox!.id } })).status).toBe(404)
})

test('the slug of a custom field is unique in its organization, even under concurrent requests', async () => {
  const { api } = await shop()
  const answers = await Promise.all(Array.from({ length: 10 }, () => api.send(createCustomField, { body: text('wanted') })))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  for (const refused of answers.filter(({ status }) => status !== 201))
    expect(refused).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'slug'] }] } })
  const other = await api.call(createCustomField, { body: text('other') })
  expect((await api.send(updateCustomField, { params: { id: other.id }, body: { type: 'text', slug: 'wanted' } })).status).toBe(422)
  const [first] = (await api.call(listCustomFields, { query: { query: 'wanted' } })).items
  await api.call(deleteCustomField, { params: { id: first!.id } })
  expect((await api.send(createCustomField, { body: text('wanted') })).status).toBe(201)
  const elsewhere = await shop()
  expect((await elsewhere.api.send(createCustomField, { body: text('wanted') })).status).toBe(201)
})

test('rejects a change of a custom field’s type, a select without options, and an invalid slug or metadata', async () => {
  const { api } = await shop()
  const made = await api.call(createCustomField, { body: text('typed') })
  expect(await api.send(updateCustomField, { params: { id: made.id }, body: { type: 'number' } })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'type'] }] },
  })
  expect((await api.sendRaw(createCustomField, { body: { type: 'select', slug: 'x', name: 'X', properties: { options: [] } } })).status).toBe(422)
  expect((await api.sendRaw(createCustomField, { body: text('no spaces') })).status).toBe(422)
  expect((await api.sendRaw(createCustomField, { body: { ...text('x'), type: 'color' } })).status).toBe(422)
  expect((await api.sendRaw(createCustomField, { body: { ...text('x'), metadata: { ['k'.repeat(41)]: 'v' } } })).status).toBe(422)
  expect(
    (await api.sendRaw(createCustomField, { body: { ...text('x'), metadata: Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`k${at}`, at])) } }))
      .status,
  ).toBe(422)
})
