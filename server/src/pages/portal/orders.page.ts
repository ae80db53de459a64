import {
  confirmPortalPayment,
  generatePortalInvoice,
  getPortalCreditNote,
  getPortalCustomer,
  getPortalInvoice,
  getPortalOrder,
  getPortalPaymentForm,
  getPortalPaymentStatus,
  getPortalReceipt,
  listPortalOrders,
  listPortalPaymentMethods,
  listPortalRefunds,
  updatePortalOrder,
} from '@bursar/contract'
import type { Complaint, PortalOrder } from '@bursar/views'
import type { Client, Reply } from '@bursar/contract/client'
import type { Payments } from '../../gateways/payments/payments.ts'
import type { Page, PageAnswer, Platform } from '../../modules/handlers.ts'
import { stripe } from '../processor.ts'
import { testCards } from '../test-cards.ts'
import { complaintsOf, problem, settled } from '../visits.ts'
import { bankPages, toBank } from './bank.ts'
import type { Visit } from './entering.ts'
import { doneAt, pagesAt } from './looking.ts'

const pageIn = (query: URLSearchParams): number => (/^[1-9]\d{0,5}$/.test(query.get('page') ?? '') ? Number(query.get('page')) : 1)

const declined = (why: string | null): Complaint => ({ loc: [], type: 'declined', msg: why ?? '' })

/** Returns the state of a payment that could not be completed at once: paid, failed or still in progress. */
const howItGoes = async (api: Client, order: PortalOrder): Promise<{ done: string | null; complaints: readonly Complaint[] }> => {
  if (order.status !== 'pending') return { done: 'order_paid', complaints: [] }
  const { status, error } = await api.call(getPortalPaymentStatus, { params: { id: order.id } })
  return status === 'failed' ? { done: null, complaints: [declined(error)] } : { done: 'order_paying', complaints: [] }
}

/** The pages for orders and their details, and for paying open ones. */
export const ordersPages = (platform: Platform, payments: Payments): Page[] => {
  const sandbox = platform.config.environment === 'sandbox'

  const showOne = async (
    { api, shell, call }: Visit,
    complaints: readonly Complaint[] = [],
    waits: (order: PortalOrder) => boolean = () => false,
    offers_invoice = false,
  ): Promise<PageAnswer> => {
    const at = { params: { id: call.params.id! } }
    const [order, refunds, methods, { publishable_key: key }] = await Promise.all([
      api.send(getPortalOrder, at),
      api.send(listPortalRefunds, at),
      api.call(listPortalPaymentMethods, { query: { limit: 100 } }),
      api.call(getPortalPaymentForm, {}),
    ])
    if (settled(order).status !== 200 || settled(refunds).status !== 200) return problem(404, 'not_found', shell.seller)
    const { status, currency, due_amount, subscription_id } = order.body
    const open = status === 'pending'
    const told = shell.done === 'order_paying' ? await howItGoes(api, order.body) : { done: shell.done, complaints: [] }
    return {
      view: {
        kind: 'portal-order',
        shell: { ...shell, done: told.done, complaints: waits(order.body) ? [] : [...complaints, ...told.complaints] },
        order: order.body,
        refunds: refunds.body.items,
        methods: methods.items,
        cards: open && sandbox && key === null ? testCards('tok_visa', 'tok_mastercard', 'tok_3ds', 'tok_do_not_honor') : null,
        // The processor saves the card of a subscription, because renewals are charged to it.
        form: open && key !== null ? { key, currency, amount: due_amount, reusable: subscription_id !== null } : null,
        waits: waits(order.body),
        offers_invoice: offers_invoice && order.body.paid,
      },
      script: true,
      ...(open && key !== null ? { outside: stripe } : {}),
    }
  }
  /** Redirects to a document once it exists. Until then a requested or regenerated invoice shows a waiting page. */
  const leadTo = async (visit: Visit, found: Reply<{ url?: string }>, isMade: (order: PortalOrder) => boolean = () => false): Promise<PageAnswer> => {
    const asked = visit.call.query.has('asked')
    const { url } = settled(found).body
    // After a submitted form, shows the page and opens the file by a refresh. The content security policy forbids
    // redirecting a form to the storage host.
    if (url !== undefined) return asked ? { ...(await showOne(visit)), refresh: url } : { redirect: url }
    return showOne(visit, found.status === 404 ? complaintsOf(found) : [], (order) => found.status === 202 || asked || isMade(order))
  }

  /** Leads to the page that waits for a requested invoice, and opens it. */
  const waitForInvoice = ({ shell, call }: Visit): PageAnswer => ({
    redirect: `/${shell.seller.slug}/portal/orders/${call.params.id!}/invoice?asked=1`,
  })

  /** Requests the invoice. If the order has no billing details, they are copied from the customer. */
  const askInvoice = async (visit: Visit): Promise<PageAnswer> => {
    const { api, call } = visit
    const params = { id: call.params.id! }
    let answer = await api.send(generatePortalInvoice, { params })
    if (answer.status === 422) {
      const { billing_name, name, billing_address } = await api.call(getPortalCustomer, {})
      if (billing_address !== null) {
        // Ignores the response of this update. If the billing details are still incomplete, the following request returns that error.
        await api.send(updatePortalOrder, { params, body: { billing_name: billing_name ?? name, billing_address: billing_address as never } })
        answer = await api.send(generatePortalInvoice, { params })
      }
    }
    if (answer.status === 202) return waitForInvoice(visit)
    return showOne(visit, answer.status === 422 ? [{ loc: [], type: 'invoice_details', msg: '' }] : complaintsOf(answer))
  }
  return [
    ...pagesAt(platform, '/orders', async ({ api, shell, call }) => {
      const { items, pagination } = await api.call(listPortalOrders, { query: { page: pageIn(call.query), limit: 25 } })
      return { view: { kind: 'portal-orders', shell, orders: items, page: pageIn(call.query), pages: pagination.max_page }, script: true }
    }),
    ...pagesAt(
      platform,
      '/orders/:id',
      (visit) => showOne(visit),
      async (visit, form) => {
        const { api, call } = visit
        if (form.get('do') === 'invoice') return askInvoice(visit)
        const saved = form.get('payment_method_id')
        const body = saved === null ? { confirmation_token_id: form.get('confirmation_token_id') } : { payment_method_id: saved }
        const answer = await api.send(confirmPortalPayment, { params: { id: call.params.id! }, body })
        if (answer.status !== 200) return showOne(visit, complaintsOf(answer))
        const { status, error, client_secret, publishable_key } = answer.body
        // A declined card is a regular response. Its message is shown as an error.
        if (status === 'failed') return showOne(visit, [declined(error)])
        if (client_secret) return toBank(platform, visit, '/orders/:id', { client_secret, publishable_key })
        return doneAt(visit, `/orders/${call.params.id!}`, status === 'succeeded' ? 'order_paid' : 'order_paying')
      },
    ),
    ...bankPages(platform, payments, {
      path: '/orders/:id',
      sum: async ({ api, call }) => {
        const order = await api.send(getPortalOrder, { params: { id: call.params.id! } })
        return order.status === 200 ? { amount: order.body.due_amount, currency: order.body.currency } : undefined
      },
      answered: async (visit) => doneAt(visit, `/orders/${visit.call.params.id!}`, 'order_paying'),
    }),
    ...pagesAt(platform, '/orders/:id/invoice', async (visit) => {
      const params = { id: visit.call.params.id! }
      const found = await visit.api.send(getPortalInvoice, { params })
      // Mails and lists link here before the invoice was requested. Only a form requests it, because a page of another site
      // can lead the browser of the buyer here.
      if (settled(found).status === 404 && !visit.call.query.has('asked')) return showOne(visit, [], undefined, true)
      return leadTo(visit, found, ({ is_invoice_generated }) => is_invoice_generated)
    }),
    ...pagesAt(platform, '/orders/:id/receipt', async (visit) =>
      leadTo(visit, await visit.api.send(getPortalReceipt, { params: { id: visit.call.params.id! } })),
    ),
    ...pagesAt(platform, '/orders/:id/refunds/:refund_id', async (visit) => {
      const { id, refund_id } = visit.call.params
      return leadTo(visit, await visit.api.send(getPortalCreditNote, { params: { id: id!, refund_id: refund_id! } }))
    }),
  ]
}
