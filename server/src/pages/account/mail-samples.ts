import type { Locale, MailKind, MailView, OrderMail } from '@bursar/views'
import { orderSamples } from './samples/orders.ts'
import { sceneOf, type SamplePlaces, type SampleScene, type SamplesOf } from './samples/scene.ts'

export { sampleSellers, type SamplePlaces } from './samples/scene.ts'

/** Returns samples of every kind of mail. A kind without a sample does not compile. */
export const samplesByKind = (locale: Locale, places: SamplePlaces): SamplesOf<MailKind> => {
  const scene = sceneOf(locale, places)
  return { ...orderSamples(scene), ...otherSamples(scene, places) }
}

/** Returns all samples in one list. */
export const mailSamples = (locale: Locale, places: SamplePlaces): MailView[] => Object.values<readonly MailView[]>(samplesByKind(locale, places)).flat()

const otherSamples = (scene: SampleScene, places: SamplePlaces): SamplesOf<Exclude<MailKind, OrderMail['kind']>> => {
  const { w, currency, portal, account, subscriptions, card_url, date, later, price, benefits, forecast, usage, card, customer, organization } = scene
  const plan = { name: w.plan, seats: null }
  const seated = { name: w.plan, seats: 5 }
  const cancel_url = portal('/subscriptions?flow=cancel')
  const seats_changed = {
    kind: 'seats_changed' as const,
    plan: { name: w.plan, seats: 8 },
    seats: 8,
    price: { ...price, amount: 16_000 },
    team_url: portal('?flow=team'),
    portal_url: subscriptions,
  }
  const threshold = {
    kind: 'usage_threshold' as const,
    meter: { ...usage, meter: w.meter },
    period_end: later,
    rate: { unit_amount: '0.4', currency },
    has_usage_page: true,
    portal_url: portal('/usage'),
  }
  const home_url = account('/')
  return {
    trial_started: [
      {
        kind: 'trial_started',
        plan,
        forecast: { ...forecast, usage: [{ meter: w.meter, ...usage }] },
        benefits,
        more_to_come: false,
        access_url: portal('/access'),
        cancel_url,
      },
    ],
    trial_ending: [{ kind: 'trial_ending', plan: seated, forecast, portal_url: subscriptions, cancel_url }],
    renewal_reminder: [
      { kind: 'renewal_reminder', plan: seated, forecast: { ...forecast, amount: 96_000, discount: w.discount }, portal_url: subscriptions, cancel_url },
    ],
    card_expiring: [{ kind: 'card_expiring', card, month: 12, year: 2026, card_url }],
    subscription_canceled: [{ kind: 'subscription_canceled', plan: seated, ends_at: later, portal_url: subscriptions }],
    subscription_uncanceled: [{ kind: 'subscription_uncanceled', plan: seated, renews_at: later, price, portal_url: subscriptions }],
    subscription_ended: [{ kind: 'subscription_ended', plan, ended_at: date, portal_url: portal('/overview') }],
    subscription_paused: [
      { kind: 'subscription_paused', plan, begins_at: later, resumes_at: null, portal_url: subscriptions },
      { kind: 'subscription_paused', plan: { name: w.plan, seats: 1 }, begins_at: null, resumes_at: later, portal_url: subscriptions },
    ],
    subscription_resumed: [{ kind: 'subscription_resumed', plan, renews_at: later, price, portal_url: subscriptions }],
    seats_changed: [
      { ...seats_changed, from: null },
      { ...seats_changed, from: later },
    ],
    plan_changed: [
      { kind: 'plan_changed', plan, from: null, price, portal_url: subscriptions },
      { kind: 'plan_changed', plan: seated, from: later, price, portal_url: subscriptions },
    ],
    usage_threshold: [
      { ...threshold, basis: 'credits', percent: 80, consumed: '80000', limit: '100000', currency: null },
      { ...threshold, basis: 'cap', percent: 100, consumed: '5000', limit: '5000', currency },
    ],
    seat_invitation: [{ kind: 'seat_invitation', product: w.plan, invited_by: customer, until: later, claim_url: portal('/claim?token=sample') }],
    seat_revoked: [
      { kind: 'seat_revoked', reason: 'withdrawn', product: w.plan, team: customer, portal_url: portal('/sign-in') },
      { kind: 'seat_revoked', reason: 'ended', product: w.plan, team: null, portal_url: portal('/sign-in') },
    ],
    seat_requested: [{ kind: 'seat_requested', who: 'ada@northwind.example', product: w.plan, team_url: portal('?flow=team') }],
    customer_code: [{ kind: 'customer_code', code: 'K7QX-29MB', minutes: 15, sign_in_url: portal('/sign-in') }],
    email_change: [{ kind: 'email_change', confirm_url: portal('/email?token=sample') }],
    email_changed: [{ kind: 'email_changed', portal_url: portal('/sign-in') }],
    customer_session_leaked: [{ kind: 'customer_session_leaked', portal_url: portal('/sign-in') }],
    new_order: [
      {
        kind: 'new_order',
        organization,
        customer,
        description: w.book,
        total: { amount: 4639, currency },
        invoice_number: 'ACME-8KQ2-0042',
        date,
        home_url,
      },
    ],
    new_subscription: [
      { kind: 'new_subscription', organization, customer, plan: seated, price, trial_end: null, home_url },
      { kind: 'new_subscription', organization, customer, plan, price, trial_end: later, home_url },
    ],
    webhook_paused: [
      {
        kind: 'webhook_paused',
        organization,
        endpoint: 'https://api.acme.example/hooks/bursar',
        reason: 'failing',
        failing_since: date,
        docs_url: account('/docs'),
      },
    ],
    dispute_opened: [
      {
        kind: 'dispute_opened',
        organization,
        customer,
        disputed: { amount: 4639, currency },
        reason: 'product_not_received',
        respond_by: later,
        invoice_number: 'ACME-8KQ2-0042',
        home_url,
      },
    ],
    payment_account_changed: [
      {
        kind: 'payment_account_changed',
        organization,
        account: 'acct_1Nv0FGQ9RKHgCVdK',
        key_hint: 'sk_test_…x7Yz',
        security_url: account('/settings/security'),
      },
    ],
    sign_in_code: [{ kind: 'sign_in_code', code: 'M3HT-6ZRW', minutes: 15, sign_in_url: account('/login') }],
    organization_invitation: [
      {
        kind: 'organization_invitation',
        organization,
        invited_by: 'jane@acme.example',
        role: 'admin',
        until: later,
        accept_url: account('/invitations?token=sample'),
      },
    ],
    token_leaked: [
      {
        kind: 'token_leaked',
        organization,
        hint: 'bursar_oat_…9f3K',
        comment: 'CI',
        tokens_url: account(`/settings/organizations/${places.organization_id}/tokens`),
      },
    ],
    app_token_leaked: [{ kind: 'app_token_leaked', app: 'Ledgerly', apps_url: account('/settings/apps') }],
    client_secret_leaked: [{ kind: 'client_secret_leaked', app: 'Ledgerly', client_id: 'bursar_ci_7Qm2', docs_url: account('/docs') }],
    app_allowed: [{ kind: 'app_allowed', app: 'Ledgerly', apps_url: account('/settings/apps') }],
  }
}
