import type { World } from '../../server/test/harness/world.ts'
import { startApi, watchMemory } from './exporting.ts'
import { sendLoad, median } from './measuring.ts'
import { options } from './options.ts'
import { makeOrders } from './orders.ts'
import type { Step } from './results.ts'

/** Grows one organization tenfold repeatedly. Measures its lists, its export and its tables each time. */
export const scale = async (world: World): Promise<Step[]> => {
  const organization = await world.organization()
  const token = (await organization.token()).secret.reveal()
  const steps: Step[] = []
  for (let [before, orders] = [0, 10_000]; orders <= options.most; [before, orders] = [orders, orders * 10]) {
    const began = performance.now()
    await makeOrders(world, organization.id, before, orders)
    console.log(`  ${orders.toLocaleString('en')} orders, made in ${Math.round((performance.now() - began) / 1000)} s`)
    const step = { orders, ...(await pages(world, token, orders)), ...(await exported(world, token)), ...(await sizes(world)) }
    for (const [name, value] of Object.entries(step)) if (name !== 'orders') console.log(`    ${name} ${Number(value.toPrecision(4)).toLocaleString('en')}`)
    steps.push(step)
  }
  return steps
}

const pages = async (world: World, token: string, orders: number) => {
  const { port, stop } = await startApi(world)
  const ask = async (query: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/orders/?${query}`, { headers: { authorization: `Bearer ${token}` } })
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
    return (await answer.json()) as { items: { id: string }[]; pagination: { next_cursor: string | null } }
  }
  const time = async (query: string) => {
    const times: number[] = []
    for (let round = 0; round <= options.rounds; round++) {
      const { p50 } = await sendLoad(port, `/v1/orders/?${query}`, token, { connections: 1, seconds: options.seconds / 2 })
      if (round > 0) times.push(p50)
    }
    return median(times)
  }
  const last = `limit=20&page=${orders / 20}`
  // Gets the cursor of the last page from the page before it, as a client that reads all pages would.
  const { pagination } = await ask(`limit=20&page=${orders / 20 - 1}`)
  const byCursor = `limit=20&cursor=${pagination.next_cursor}`
  const [one, other] = [await ask(last), await ask(byCursor)]
  if (one.items.length !== 20 || one.items.some(({ id }, at) => id !== other.items[at]!.id)) throw new Error('the last page is another one by cursor')
  const figures = {
    first_page_ms: await time('limit=20'),
    last_page_ms: await time(last),
    last_page_by_cursor_ms: await time(byCursor),
    filtered_count_ms: await time('limit=20&status=paid&status=pending'),
  }
  await stop()
  return figures
}

const exported = async (world: World, token: string) => {
  const runs = []
  for (let round = 0; round < options.rounds; round++) runs.push(await watchMemory(world, token))
  return {
    export_seconds: median(runs.map(({ took }) => took)),
    export_mib: runs[0]!.mib,
    // Reports the worst run, because the goal must be met in every run.
    export_memory_mib: Math.max(...runs.map(({ highest, idle }) => highest - idle)),
  }
}

const sizes = async (world: World) => {
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ table_mib: number; index_mib: number; items_mib: number }>(
      `select pg_table_size('orders') / 1048576.0::float8 as table_mib, pg_indexes_size('orders') / 1048576.0::float8 as index_mib,
         pg_total_relation_size('order_items') / 1048576.0::float8 as items_mib`,
    ),
  )
  return rows[0]!
}
