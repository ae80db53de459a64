import { createCustomer, deleteCustomer, exportCustomers } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

test('exports existing customers, newest first, with their addresses and metadata', async () => {
  const { api } = await world.shop()
  const anna = await api.call(createCustomer, {
    body: {
      email: 'anna@people.test',
      external_id: 'a-1',
      name: 'Anna, A',
      billing_address: { line1: 'Gasse 1', line2: 'Tür 2', city: 'Wien', postal_code: '10115', country: 'DE' },
      tax_id: 'DE136695976',
      metadata: { source: 'fair' },
    },
  })
  world.clock.advance(1)
  const bert = await api.call(createCustomer, { body: { email: 'bert@people.test' } })
  const gone = await api.call(createCustomer, { body: { email: 'gone@people.test' } })
  await api.call(deleteCustomer, { params: { id: gone.id } })
  const reply = await api.send(exportCustomers, {})
  expect([reply.headers.get('content-disposition'), reply.headers.get('x-total-count')]).toEqual(['attachment; filename="customers.csv"', '2'])
  const at = (moment: string) => moment.replace('Z', '+00:00')
  expect(reply.body).toBe(
    [
      '"ID",External ID,Created At,Email,Name,Tax ID,Billing Address Line 1,Billing Address Line 2,Billing Address City,Billing Address State,Billing Address Zip,Billing Address Country,Metadata',
      `${bert.id},,${at(bert.created_at)},bert@people.test,,,,,,,,,{}`,
      `${anna.id},a-1,${at(anna.created_at)},anna@people.test,"Anna, A",DE136695976,Gasse 1,Tür 2,Wien,,10115,DE,"{""source"": ""fair""}"`,
      '',
    ].join('\r\n'),
  )
})

test('exports pure seat holders only before phase 2', async () => {
  const { api, organization, phase } = await world.shop()
  await api.call(createCustomer, { body: { email: 'buyer@people.test' } })
  const holder = await api.call(createCustomer, { body: { email: 'holder@people.test' } })
  await world.database.owner((owner) =>
    owner.query('update customers set pure_holder = true where organization_id = $1 and id = $2', [organization.id, holder.id]),
  )
  const emails = async () => {
    const { body, headers } = await api.send(exportCustomers, {})
    const lines = body.split('\r\n').slice(1, -1)
    expect(headers.get('x-total-count')).toBe(String(lines.length))
    return lines.map((line) => line.split(',')[3]!).toSorted((a, b) => (a < b ? -1 : 1))
  }
  await phase('phase1')
  expect(await emails()).toEqual(['buyer@people.test', 'holder@people.test'])
  await phase('phase2')
  expect(await emails()).toEqual(['buyer@people.test'])
})
