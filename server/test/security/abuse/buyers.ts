import { createBenefit, createProduct } from '../../../src/modules/catalog/index.ts'
import { createCustomer } from '../../../src/modules/customers/index.ts'
import type { World } from '../../harness/world.ts'
import type { openSeeds } from '../matrix/seeds.ts'

/** Creates a product with a benefit and a subscription, and copies the buyer and the subscription this many times. */
export const multiplyBuyers = async (
  world: World,
  seeds: ReturnType<typeof openSeeds>,
  organization_id: string,
  count: number,
): Promise<{ product_id: string; benefit_id: string }> => {
  const scope = seeds.inside(organization_id)
  const benefit = await world.transact((tx) => createBenefit(tx, scope, world.platform, { type: 'custom', description: 'Popular', properties: {} }))
  const { product, prices } = await world.transact((tx) =>
    createProduct(tx, scope, {
      name: 'Popular',
      visibility: 'public',
      recurring_interval: 'month',
      recurring_interval_count: 1,
      prices: [{ amount_type: 'fixed', price_currency: 'usd', price_amount: 1000 }],
    }),
  )
  const { id: customer_id } = await world.transact((tx) =>
    createCustomer(tx, scope, { type: 'team', email: 'first@buyers.test', owner: { email: 'first@buyers.test' } }),
  )
  const subscription = await seeds.sales.subscription(
    { organization_id, id: customer_id },
    product,
    prices.map(({ id }) => id),
  )
  // The ids have the form of version 4, which the payloads of jobs require.
  const copied = (kind: string) => `overlay(overlay(md5('${kind}' || $1 || n) placing '4' from 13 for 1) placing '8' from 17 for 1)::uuid`
  const copy = (table: string, where: string, changes: string) =>
    `insert into ${table} select (jsonb_populate_record(t, jsonb_build_object(${changes}))).* from ${table} t, generate_series(1, $3::int) n where t.organization_id = $1::text::uuid and ${where}`
  await world.database.owner(async (owner) => {
    // Without triggers, because copies need neither an audit entry nor a foreign key check.
    await owner.query('set session_replication_role = replica')
    const run = (text: string, original: string) => owner.query(text, [organization_id, original, count])
    await run(copy('customers', 't.id = $2', `'id', ${copied('customer')}, 'external_id', null, 'email', n || '@buyers.test'`), customer_id)
    await run(
      copy(
        'members',
        `t.customer_id = $2 and t.role = 'owner'`,
        `'id', ${copied('member')}, 'customer_id', ${copied('customer')}, 'external_id', null, 'email', n || '@buyers.test'`,
      ),
      customer_id,
    )
    await run(copy('subscriptions', 't.id = $2', `'id', ${copied('subscription')}, 'customer_id', ${copied('customer')}`), subscription.id)
    await run(copy('subscription_prices', 't.subscription_id = $2', `'subscription_id', ${copied('subscription')}`), subscription.id)
  })
  return { product_id: product.id, benefit_id: benefit.id }
}
