import type { Stripe } from 'stripe'
import { toProcessor } from '../../../kernel/money.ts'
import type { Secret } from '../../../kernel/secrets.ts'
import type { Clock } from '../../../platform/clock.ts'
import { ProcessorRefusal, type Instrument, type Intent, type Processor } from '../payments.ts'
import { heard, inspectKey, isDecline, openClients } from './client.ts'
import { heardOf, mapStripeEvent, readSigned } from './events.ts'
import {
  debitOfPayment,
  debitOfSetup,
  declineOf,
  ourCurrency,
  presentDispute,
  presentMethod,
  presentPayment,
  presentRefund,
  presentSetup,
  presentToken,
} from './objects.ts'

export interface StripeGateway {
  /** Opens one account with its API key and the secret that signs its events. */
  account(account: { readonly key: Secret; readonly secret: Secret }): Processor
  inspect(key: Secret): Promise<{ id: string }>
  close(): void
}

/** Opens the Stripe gateway. The gateway never scans large lists: it finds objects by id, or among the objects of one customer. */
export const openStripe = ({ base, clock, timeout_ms }: { base: URL | undefined; clock: Clock; timeout_ms?: number }): StripeGateway => {
  const clients = openClients({ base, timeout_ms })
  return {
    account: ({ key, secret }) => accountOf(clients.open(key), secret, clock),
    inspect: (key) => inspectKey(clients.open(key)),
    close: clients.close,
  }
}

const payment = { expand: ['payment_method', 'latest_charge'] }
const setup = { expand: ['payment_method', 'latest_attempt'] }
const each = ({ expand }: { expand: string[] }) => ({ limit: 100, expand: expand.map((field) => `data.${field}`) })

const isSetup = (id: string): boolean => id.startsWith('seti_')

const accountOf = (stripe: Stripe, secret: Secret, clock: Clock): Processor => {
  /** Adds the SEPA debit that iDEAL or Bancontact has set up. Stripe does not expand it, so it is fetched by its id. */
  const complete = async (intent: Intent, debit: string | null): Promise<Intent> =>
    debit === null || intent.status !== 'succeeded' ? intent : { ...intent, later_method: presentMethod(await stripe.paymentMethods.retrieve(debit)) }
  const wholePayment = (intent: Stripe.PaymentIntent) => complete(presentPayment(intent), debitOfPayment(intent))
  const wholeSetup = (intent: Stripe.SetupIntent) => complete(presentSetup(intent), debitOfSetup(intent))
  const retrieve = async (id: string): Promise<Intent> =>
    isSetup(id) ? wholeSetup(await stripe.setupIntents.retrieve(id, setup)) : wholePayment(await stripe.paymentIntents.retrieve(id, payment))
  const readIntent = (id: string) => heard('readIntent', () => retrieve(id))

  return {
    // Sends no personal data. Stripe receives personal data only through its own payment form.
    createCustomer: ({ key, metadata }) => heard('createCustomer', async () => (await stripe.customers.create({ metadata }, { idempotencyKey: key })).id),
    createIntent: ({ key, kind, amount, currency, customer, metadata, reusable, leaves = false }) =>
      heard('createIntent', async () => {
        const methods = { automatic_payment_methods: { enabled: true, allow_redirects: leaves ? ('always' as const) : ('never' as const) }, customer }
        if (kind === 'setup')
          return presentSetup(
            await stripe.setupIntents.create(
              { ...methods, ...setup, usage: 'off_session', metadata: { ...metadata, [ourCurrency]: currency } },
              { idempotencyKey: key },
            ),
          )
        const future = reusable ? { setup_future_usage: 'off_session' as const } : {}
        return presentPayment(
          await stripe.paymentIntents.create(
            { ...methods, ...payment, ...future, amount: toProcessor(amount, currency), currency, metadata },
            { idempotencyKey: key },
          ),
        )
      }),
    confirmIntent: async (id, { key, deps, off_session, require_3ds, return_url }) => {
      const options = require_3ds ? { payment_method_options: { card: { request_three_d_secure: 'any' as const } } } : {}
      const request = { ...instrument(deps), ...options, ...(return_url === undefined ? {} : { return_url }) }
      try {
        if (isSetup(id)) return await wholeSetup(await stripe.setupIntents.confirm(id, { ...request, ...setup }, { idempotencyKey: key }))
        const away = off_session ? { off_session } : {}
        return await wholePayment(await stripe.paymentIntents.confirm(id, { ...request, ...payment, ...away }, { idempotencyKey: key }))
      } catch (error) {
        // The intent contains the decline reason until the intent is canceled. After that, the reason is taken from the error.
        if (isDecline(error)) {
          const intent = await readIntent(id)
          return { ...intent, decline: intent.decline ?? declineOf(error) }
        }
        return heard('confirmIntent', () => Promise.reject(error as Error))
      }
    },
    readIntent,
    findIntents: ({ customer, metadata }) =>
      heard('findIntents', async () => {
        const found: { created: number; intent: Intent }[] = []
        for await (const one of stripe.paymentIntents.list({ customer, ...each(payment) })) found.push({ created: one.created, intent: presentPayment(one) })
        for await (const one of stripe.setupIntents.list({ customer, ...each(setup) })) found.push({ created: one.created, intent: presentSetup(one) })
        return found
          .filter(({ intent }) => carries(intent.metadata, metadata))
          .toReversed()
          .toSorted((a, b) => a.created - b.created)
          .map(({ intent }) => intent)
      }),
    cancelIntent: (id) =>
      untilSaid(
        'cancelIntent',
        async () => (isSetup(id) ? presentSetup(await stripe.setupIntents.cancel(id, setup)) : presentPayment(await stripe.paymentIntents.cancel(id, payment))),
        () => retrieve(id),
        ({ status }) => status === 'canceled',
      ),
    createRefund: ({ key, intent_id, amount, metadata }) =>
      heard('createRefund', async () => {
        // Reads the currency of the payment, because the number of decimal places of the refund amount depends on it.
        const { currency } = await stripe.paymentIntents.retrieve(intent_id)
        return presentRefund(
          await stripe.refunds.create({ payment_intent: intent_id, amount: toProcessor(amount, currency), metadata }, { idempotencyKey: key }),
        )
      }),
    readRefund: (id) => heard('readRefund', async () => presentRefund(await stripe.refunds.retrieve(id))),
    findRefunds: ({ intent_id, metadata }) =>
      heard('findRefunds', async () => {
        const found = []
        for await (const one of stripe.refunds.list({ payment_intent: intent_id, limit: 100 })) found.push(presentRefund(one))
        return found.filter((one) => carries(one.metadata, metadata)).toReversed()
      }),
    readDispute: (id) => heard('readDispute', async () => presentDispute(await stripe.disputes.retrieve(id))),
    acceptDispute: (id, { key }) =>
      untilSaid(
        'acceptDispute',
        async () => presentDispute(await stripe.disputes.close(id, {}, { idempotencyKey: key })),
        async () => presentDispute(await stripe.disputes.retrieve(id)),
        ({ status }) => status === 'lost',
      ),
    findDisputes: ({ intent_id }) =>
      heard('findDisputes', async () => {
        const found = []
        for await (const one of stripe.disputes.list({ payment_intent: intent_id, limit: 100 })) found.push(presentDispute(one))
        return found.toReversed()
      }),
    forgetMethod: async (id) => {
      await untilSaid(
        'forgetMethod',
        () => stripe.paymentMethods.detach(id),
        () => stripe.paymentMethods.retrieve(id),
        ({ customer }) => customer === null,
      )
    },
    readMethod: async (id) => {
      try {
        const method = await heard('readMethod', () => stripe.paymentMethods.retrieve(id))
        return method.customer === null ? null : presentMethod(method)
      } catch (error) {
        if (error instanceof ProcessorRefusal && error.code === 'resource_missing') return null
        throw error
      }
    },
    previewToken: async (token) => {
      // Only strings of this form are tokens. Other strings must not become part of a URL.
      if (!/^ctoken_[0-9A-Za-z_]+$/.test(token)) return null
      try {
        const found = await heard('previewToken', () => stripe.confirmationTokens.retrieve(token))
        return found.expires_at !== null && found.expires_at * 1000 <= clock.wall().getTime() ? null : presentToken(found)
      } catch (error) {
        if (error instanceof ProcessorRefusal && error.code === 'resource_missing') return null
        throw error
      }
    },
    // Stripe lists the newest events first. The order is irrelevant, because an event only names the object to fetch again.
    listEvents: (since, after) =>
      heard('listEvents', async () => {
        const created = { gte: Math.floor(since.getTime() / 1000) }
        const { data, has_more } = await stripe.events.list({ types: heardOf, created, limit: 100, ...(after === null ? {} : { starting_after: after }) })
        return { events: data.map(mapStripeEvent).filter((event) => event !== null), next: has_more ? (data.at(-1)?.id ?? null) : null }
      }),
    readEvent: (headers, body) => readSigned(secret, headers, body, clock.wall()),
  }
}

const instrument = (deps: Instrument) => (deps.kind === 'token' ? { confirmation_token: deps.token } : { payment_method: deps.id })

const carries = (have: Readonly<Record<string, string>>, want: Readonly<Record<string, string>>): boolean =>
  Object.entries(want).every(([name, value]) => have[name] === value)

/**
 * Runs a call that Stripe refuses if it is repeated. If the object shows that an earlier call took effect, returns the
 * object instead of the refusal.
 */
const untilSaid = async <T>(call: string, say: () => Promise<T>, look: () => Promise<T>, isSaid: (object: T) => boolean): Promise<T> => {
  try {
    return await heard(call, say)
  } catch (error) {
    if (!(error instanceof ProcessorRefusal)) throw error
    const object = await heard(call, look)
    if (isSaid(object)) return object
    throw error
  }
}
