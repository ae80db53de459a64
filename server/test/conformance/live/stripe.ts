import { Stripe } from 'stripe'
import { openStripe } from '../../../src/gateways/payments/stripe/processor.ts'
import { newId } from '../../../src/kernel/ids.ts'
import { Secret } from '../../../src/kernel/secrets.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { tellStory } from '../../harness/stripe-story.ts'

/** Runs the request sequence of `stripe-story.ts` against Stripe itself. Accepts only a test-mode key, so that no money moves. */
const key = process.env.BURSAR_LIVE_STRIPE_KEY
if (!key) {
  console.log('skipped: BURSAR_LIVE_STRIPE_KEY is not set. Give a secret key of test mode, sk_test_…')
} else if (!key.startsWith('sk_test_')) {
  console.error('BURSAR_LIVE_STRIPE_KEY must be a secret key of test mode, sk_test_…: this would move real money.')
  process.exitCode = 1
} else {
  const gateway = openStripe({ base: undefined, clock: systemClock })
  const { testHelpers } = new Stripe(key)
  const stripe = gateway.account({ key: new Secret(key), secret: new Secret('whsec_unused') })
  const tokenFor = async (payment_method: string) => (await testHelpers.confirmationTokens.create({ payment_method })).id
  const run = newId(systemClock.wall())
  const { id } = await gateway.inspect(new Secret(key))
  const shown = await tellStory(stripe, tokenFor, { run, wait: () => new Promise((resolve) => setTimeout(resolve, 1000)) })
  for (const line of shown) console.log(`ok   ${line}`)
  console.log(`stripe ${id}: ${shown.length} parts of the story hold`)
  gateway.close()
}
