import type { OrderMail } from '@bursar/views'
import type { SampleScene, SamplesOf } from './scene.ts'

/** Samples of the mails about orders, with every form of label that billing stores. */
export const orderSamples = (scene: SampleScene): SamplesOf<OrderMail['kind']> => {
  const { w, currency, line, portal, order_url, card_url, date, later, benefits, picture, card, is_german } = scene
  const receipt = {
    kind: 'receipt' as const,
    currency,
    seats: null,
    discount: null,
    tax: 0,
    tax_included: is_german,
    applied_balance: 0,
    carried: 0,
    date,
    paid: { card, at: date },
    period: { start: date, end: later },
    picture: null,
    benefits: [],
    more_to_come: false,
    order_url,
    pdf: { kind: 'invoice' as const, url: `${order_url}/invoice` },
    access_url: portal('/overview'),
  }
  const used = { type: 'usage', meter: w.meter, rate: '0.004', currency: currency.toUpperCase(), from: '2026-10-18', to: '2026-11-18' } as const
  const failed = {
    kind: 'payment_failed' as const,
    owed: { amount: 11_900, currency },
    description: w.plan,
    period: { start: date, end: later },
    pay_url: order_url,
    card_url,
    portal_url: portal('/overview'),
  }
  const dispute = { kind: 'dispute' as const, disputed: { amount: 4639, currency }, description: w.book, order_date: date, order_url }
  const added = is_german ? 0 : 639
  return {
    receipt: [
      {
        ...receipt,
        reason: 'purchase',
        description: w.book,
        lines: [line({ type: 'product', name: w.book, seats: null }, 4900)],
        discount: { name: w.discount, amount: 900 },
        tax: 639,
        total: 4000 + added,
        charged: 4000 + added,
        invoice_number: 'ACME-8KQ2-0042',
        period: null,
        picture,
        benefits,
      },
      {
        ...receipt,
        reason: 'subscription',
        description: w.plan,
        lines: [line({ type: 'product', name: w.plan, seats: 5 }, 10_000)],
        seats: 5,
        tax: 1597,
        total: is_german ? 10_000 : 11_597,
        charged: is_german ? 10_000 : 11_597,
        invoice_number: 'ACME-8KQ2-0043',
        more_to_come: true,
        pdf: { kind: 'receipt', url: `${order_url}/receipt` },
      },
      {
        ...receipt,
        reason: 'change',
        description: w.plan,
        lines: [{ ...line({ type: 'product', name: w.plan, seats: 8 }, 8000), proration: true }, line({ type: 'remaining', name: w.plan, seats: 5 }, -5000)],
        seats: 8,
        total: 3000,
        charged: 3000,
        invoice_number: 'ACME-8KQ2-0044',
      },
      {
        ...receipt,
        reason: 'change',
        description: w.plan,
        lines: [line({ type: 'taken_back', credit: { type: 'remaining', name: w.plan, seats: 1 } }, 1000)],
        seats: 8,
        total: 1000,
        carried: 1000,
        charged: 0,
        paid: null,
        invoice_number: 'ACME-8KQ2-0045',
        period: null,
        pdf: null,
      },
      {
        ...receipt,
        reason: 'renewal',
        description: w.plan,
        lines: [
          line({ type: 'product', name: w.plan, seats: 8 }, 16_000),
          line({ ...used, quantity: '12500', credited: '10000', corrects: null }, 1000),
          line({ ...used, quantity: '1', credited: '0', corrects: '26', from: '2026-09-18', to: '2026-10-18' }, -10),
          line({ type: 'restored', credit: { type: 'remaining', name: w.plan, seats: 5 } }, -1000),
        ],
        seats: 8,
        total: 15_990,
        applied_balance: -2500,
        charged: 13_490,
        invoice_number: 'ACME-8KQ2-0046',
      },
    ],
    free_order: [{ kind: 'free_order', description: w.book, date, picture: null, benefits, more_to_come: false, access_url: portal('/access') }],
    payment_failed: [
      { ...failed, reason: { type: 'declined', message: 'The card has insufficient funds.' }, next: { type: 'retried', at: later } },
      { ...failed, reason: { type: 'declined', message: 'Your card has expired.' }, next: { type: 'open' } },
      { ...failed, reason: { type: 'no_method' }, next: { type: 'ended' } },
    ],
    refund: [
      { kind: 'refund', refunded: { amount: 4639, currency }, description: w.book, invoice_number: 'ACME-8KQ2-0042', card, date, order_url },
      { kind: 'refund', refunded: { amount: 1000, currency }, description: w.book, invoice_number: 'ACME-8KQ2-0042', card: null, date, order_url },
    ],
    dispute: [
      { ...dispute, outcome: 'opened' },
      { ...dispute, outcome: 'won' },
      { ...dispute, outcome: 'lost' },
    ],
  }
}
