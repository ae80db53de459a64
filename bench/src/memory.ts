import { readFileSync } from 'node:fs'
import { launch, portOf } from '../../server/test/harness/process.ts'
import type { World } from '../../server/test/harness/world.ts'
import { makeProducts, tokenOf } from './lists.ts'
import { imageOptions, sendLoad } from './measuring.ts'
import { options } from './options.ts'
import { makeOrders } from './orders.ts'
import type { Outcome } from './results.ts'

/** Measures the memory of the API process after many requests: pages of products and orders, single products, and new customers. */
export const memory = async (world: World): Promise<Record<string, Outcome>> => {
  const shop = await world.organization()
  await makeProducts(world, shop.id, 1000)
  await makeOrders(world, shop.id, 0, 1000)
  const token = await tokenOf(shop)
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ id: string }>('select id from products where organization_id = $1 order by created_at desc limit 1', [shop.id]),
  )
  const loads = [
    { path: '/v1/products/?limit=10' },
    { path: `/v1/products/${rows[0]!.id}` },
    { path: '/v1/orders/?limit=10' },
    { path: '/v1/customers/', body: JSON.stringify({ email: 'buyer-{n}@people.test', name: 'A buyer' }) },
  ]
  const program = launch(['serve', '--roles', 'api'], { ...world.environmentVariables, ...imageOptions(), BURSAR_LOG_LEVEL: 'info' })
  try {
    const port = portOf(await program.line('listening'))
    const resident = () => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${program.child.pid!}/status`, 'utf8'))![1]) / 1024
    const atStart = resident()
    let sent = 0
    for (let turn = 0; sent < options.requests; turn++) {
      const { path, body } = loads[turn % loads.length]!
      sent += (await sendLoad(port, path, token, body === undefined ? {} : { body })).answers
      if (turn % loads.length === 0) console.log(`  ${sent.toLocaleString('en')} requests, ${Math.round(resident())} MiB`)
    }
    const atEnd = resident()
    return {
      memory: {
        ratio: atEnd,
        figures: [
          { what: 'after the start', value: atStart, unit: ' MiB' },
          { what: `after ${sent.toLocaleString('en')} requests`, value: atEnd, unit: ' MiB' },
        ],
        rounds: 1,
      },
    }
  } finally {
    program.signal('SIGKILL')
    await program.exited
  }
}
