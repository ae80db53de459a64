import assert from 'node:assert/strict'
import { openTestProcessor } from '../../../src/gateways/payments/test/processor.ts'
import { eventually } from '../../harness/world.ts'
import type { Stage, Story } from '../run.ts'

const address = { country: 'DE' as const }
const return_url = 'https://shop.example/portal'

/** Handles disputes, and saves, adds and deletes payment methods, once with each client. */
export const payers: Story = async (stage) => {
  const { world } = stage
  const processor = openTestProcessor({ url: world.config.database_url, environment: 'sandbox', clock: world.clock, log: world.base.log })
  const nod = (client_secret: string) => processor.completeAction(client_secret, true)
  try {
    const { organization } = await world.shop()
    const token = (await organization.token()).secret.reveal()
    await withCurrent(stage, token, nod)
    await withStrict(stage, token, nod)
  } finally {
    await processor.close()
  }
}

type Nod = (client_secret: string) => Promise<unknown>
/** Extracts the processor's intent id from the intent's client secret. */
const intentOf = (client_secret: string) => client_secret.split('_secret_')[0]!

const withCurrent = async ({ clients }: Stage, token: string, nod: Nod): Promise<void> => {
  const seller = clients.current(token)
  const product = await seller.products.create({ name: 'Disputed', prices: [{ amount_type: 'fixed', price_amount: 2900 }] })
  const made = await seller.checkouts.create({ products: [product.id], customer_email: 'ada@people.test', customer_billing_address: address })
  await clients.current('undefined').checkouts.clientConfirm(made.client_secret, { confirmation_token_id: 'tok_dispute' })
  const dispute = await eventually('the dispute exists', async () => (await seller.disputes.list({ status: 'needs_response' })).items[0])
  assert.deepEqual([dispute.amount, dispute.tax_amount, dispute.case_id, dispute.customer.email], [2900, 0, null, 'ada@people.test'])
  assert.equal((await seller.disputes.get(dispute.id)).order_id, dispute.order_id)
  assert.equal((await seller.disputes.accept(dispute.id)).status, 'lost')
  await assert.rejects(seller.disputes.accept(dispute.id), (error: { name: string }) => error.name === 'DisputeNotOpenError')

  const { customers } = clients.current((await seller.customerSessions.create({ customer_id: dispute.customer.id })).token).customerPortal
  const first = await customers.addPaymentMethod({ confirmation_token_id: 'tok_visa', set_default: true, return_url })
  assert.ok(first.status === 'succeeded')
  const asked = await customers.addPaymentMethod({ confirmation_token_id: 'tok_3ds', set_default: false, return_url })
  assert.ok(asked.status === 'requires_action')
  await nod(asked.client_secret)
  const second = await customers.confirmPaymentMethod({ setup_intent_id: intentOf(asked.client_secret), set_default: true })
  assert.ok(second.status === 'succeeded')
  assert.equal((await customers.get()).default_payment_method_id, second.payment_method.id)
  assert.equal((await customers.update({ default_payment_method_id: first.payment_method.id })).default_payment_method_id, first.payment_method.id)
  assert.equal((await customers.listPaymentMethods({})).pagination.total_count, 2)
  await customers.deletePaymentMethod(second.payment_method.id)
  assert.deepEqual(
    (await seller.customers.listPaymentMethods(dispute.customer.id, {})).items.map(({ id, is_default }) => [id, is_default]),
    [[first.payment_method.id, true]],
  )
  await assert.rejects(
    customers.addPaymentMethod({ confirmation_token_id: 'tok_lost_card', set_default: false, return_url }),
    (error: { name: string }) => error.name === 'PaymentMethodSetupFailed',
  )
}

const withStrict = async ({ clients }: Stage, token: string, nod: Nod): Promise<void> => {
  const seller = clients.strict(token)
  const product = await seller.products.create({ name: 'Disputed too', prices: [{ amountType: 'fixed', priceAmount: 5900 }] })
  const { clientSecret } = await seller.checkouts.create({ products: [product.id], customerEmail: 'bob@people.test', customerBillingAddress: address })
  await clients.strict('').checkouts.clientConfirm({ clientSecret, checkoutConfirmStripe: { confirmationTokenId: 'tok_dispute' } })
  const dispute = await eventually('the dispute exists', async () => {
    for await (const { result } of await seller.disputes.list({ status: 'needs_response' })) return result.items[0]
    return undefined
  })
  assert.equal((await seller.disputes.get({ id: dispute.id })).amount, 5900)
  const { customerId } = await seller.orders.get({ id: dispute.orderId })

  const session = { customerSession: (await seller.customerSessions.create({ customerId })).token }
  const { customers } = seller.customerPortal
  const first = await customers.addPaymentMethod(session, { confirmationTokenId: 'tok_mastercard', setDefault: true, returnUrl: return_url })
  assert.ok(first.status === 'succeeded')
  const asked = await customers.addPaymentMethod(session, { confirmationTokenId: 'tok_3ds', setDefault: false, returnUrl: return_url })
  assert.ok(asked.status === 'requires_action')
  await nod(asked.clientSecret)
  const second = await customers.confirmPaymentMethod(session, { setupIntentId: intentOf(asked.clientSecret), setDefault: false })
  assert.ok(second.status === 'succeeded')
  await customers.deletePaymentMethod(session, { id: first.paymentMethod.id })
  assert.equal((await customers.get(session)).defaultPaymentMethodId, second.paymentMethod.id)
}
