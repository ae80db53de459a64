import { expect, test } from 'vitest'
import { describeFields, openCatalogue } from './describing.ts'

const described = (properties: Record<string, { description?: string; anyOf?: unknown }>, catalogue: Record<string, string>) => {
  const missing: string[] = []
  const known = openCatalogue(catalogue)
  describeFields({ type: 'object', properties }, 'Order', known, missing)
  return { texts: Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, field.description])), missing, unused: known.unused() }
}

test('prefers the description at the field, then the schema, then a pattern, then the name', () => {
  const catalogue = { id: 'by name', 'Ord*.id': 'by pattern', 'Order.id': 'by schema', name: 'by name', 'Or*.name': 'by pattern', at: 'by name' }
  const { texts, missing, unused } = described({ id: {}, name: {}, at: {}, own: { description: 'own' } }, catalogue)
  expect(texts).toEqual({ id: 'by schema', name: 'by pattern', at: 'by name', own: 'own' })
  expect({ missing, unused }).toEqual({ missing: [], unused: ['id', 'Ord*.id', 'name'] })
})

test('reports a field that nothing describes, also inside a list', () => {
  const nested = { description: 'Lines.', type: 'array', items: { type: 'object', properties: { price: {} } } }
  expect(described({ amount: {}, lines: nested }, {}).missing).toEqual(['Order.amount', 'Order.price'])
})

test('mentions null only for a field that may be null', () => {
  const catalogue = { paid_at: 'When it was paid; null before. In UTC.' }
  expect(described({ paid_at: {} }, catalogue).texts).toEqual({ paid_at: 'When it was paid. In UTC.' })
  const nullable = { anyOf: [{ type: 'string' }, { type: 'null' }] }
  expect(described({ paid_at: nullable }, catalogue).texts).toEqual({ paid_at: 'When it was paid; null before. In UTC.' })
  const own = { anyOf: [{ type: 'string', description: 'Own text.' }, { type: 'null' }] }
  expect(described({ paid_at: own }, catalogue).texts).toEqual({ paid_at: 'Own text.' })
})
