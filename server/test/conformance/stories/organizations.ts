import assert from 'node:assert/strict'
import type { Story } from '../run.ts'

/** Creates, reads, lists and updates an organization. */
export const organizations: Story = async ({ world, clients }) => {
  const operator = await world.person({ is_operator: true })
  const token = (await operator.token()).secret.reveal()

  const current = clients.current(token)
  const made = await current.organizations.create({ name: 'Current', slug: 'current-client', email: 'hello@current.example' })
  assert.equal(made.slug, 'current-client')
  assert.equal((await current.organizations.get(made.id)).name, 'Current')
  const changed = await current.organizations.update(made.id, { name: 'Current, renamed' })
  assert.equal(changed.name, 'Current, renamed')
  assert.deepEqual(
    (await current.organizations.list({ slug: 'current-client' })).items.map(({ id }) => id),
    [made.id],
  )

  const strict = clients.strict(token)
  const older = await strict.organizations.create({ name: 'Strict', slug: 'strict-client' })
  assert.equal((await strict.organizations.get({ id: older.id })).slug, 'strict-client')
  assert.equal((await strict.organizations.update({ id: older.id, organizationUpdate: { name: 'Strict, renamed' } })).name, 'Strict, renamed')
  const slugs: string[] = []
  for await (const page of await strict.organizations.list({ limit: 1, sorting: ['slug'] })) slugs.push(...page.result.items.map(({ slug }) => slug))
  assert.deepEqual(slugs, ['current-client', 'strict-client'])

  const machine = await world.organization()
  const own = clients.current((await machine.token()).secret.reveal())
  await assert.rejects(own.organizations.get(made.id), (error: { name: string }) => error.name === 'ResourceNotFound')
  await assert.rejects(own.organizations.create({ name: 'No', slug: 'no' }))
  await assert.rejects(clients.strict('bursar_test_oat_nonsense').organizations.get({ id: older.id }))
}
