import {
  addPortalPaymentMethod,
  confirmPortalPaymentMethod,
  deletePortalPaymentMethod,
  getPortalCustomer,
  getPortalPaymentForm,
  listPortalPaymentMethods,
  updatePortalCustomer,
} from '@bursar/contract'
import type { Complaint, Flow, PortalShell } from '@bursar/views'
import type { Payments } from '../../gateways/payments/payments.ts'
import type { Page, PageAnswer, Platform } from '../../modules/handlers.ts'
import { stripe } from '../processor.ts'
import { testCards } from '../test-cards.ts'
import { complaintsOf } from '../visits.ts'
import { bankPages, toBank } from './bank.ts'
import { flowIn, withFlow, type Visit } from './entering.ts'
import { doneAt, isOver, pagesAt, subscriptionsOf } from './looking.ts'

const parts = ['line1', 'line2', 'postal_code', 'city', 'state', 'country'] as const

/** The pages for billing details and payment methods. */
export const billingPages = (platform: Platform, payments: Payments): Page[] => {
  const sandbox = platform.config.environment === 'sandbox'

  const show = async (
    { api, shell: around, call }: Visit,
    more: { complaints?: readonly Complaint[]; draft?: Record<string, string>; flow?: Flow | null } = {},
  ): Promise<PageAnswer> => {
    const [customer, methods, subscriptions, { publishable_key: key, currency }] = await Promise.all([
      api.call(getPortalCustomer, {}),
      api.call(listPortalPaymentMethods, { query: { limit: 100 } }),
      subscriptionsOf(api),
      api.call(getPortalPaymentForm, {}),
    ])
    const flow = more.flow ?? flowIn(call.query, 'billing')
    const shell: PortalShell = { ...around, flow, complaints: more.complaints ?? [] }
    return {
      view: {
        kind: 'portal-billing',
        shell,
        customer,
        methods: methods.items,
        subscriptions: subscriptions.filter((one) => !isOver(one)),
        draft: more.draft ?? null,
        cards: sandbox && key === null ? testCards('tok_visa', 'tok_mastercard', 'tok_3ds', 'tok_declined_later', 'tok_do_not_honor') : null,
        form: key === null ? null : { key, currency },
      },
      script: true,
      ...(key === null ? {} : { outside: stripe }),
      ...(more.complaints ? { status: 422 } : {}),
      here: `/${shell.seller.slug}/portal/billing${withFlow(flow)}`,
    }
  }

  const pages = pagesAt(
    platform,
    '/billing',
    (visit) => show(visit),
    async (visit, form) => {
      const { api } = visit
      const flow = flowIn(form, 'billing')
      if (form.get('do') === 'default') {
        const answer = await api.send(updatePortalCustomer, { body: { default_payment_method_id: form.get('payment_method_id') } })
        return answer.status === 200 ? doneAt(visit, '/billing', 'method_chosen', flow) : show(visit, { complaints: complaintsOf(answer), flow })
      }
      if (form.get('do') === 'add') {
        const return_url = new URL(`/${visit.shell.seller.slug}/portal/billing`, platform.config.public_url).href
        const body = { confirmation_token_id: form.get('confirmation_token_id') ?? '', set_default: form.has('set_default'), return_url }
        const answer = await api.send(addPortalPaymentMethod, { body })
        if (answer.status !== 201) return show(visit, { complaints: complaintsOf(answer), flow })
        if (answer.body.status === 'succeeded') return doneAt(visit, '/billing', 'method_added', flow)
        const { client_secret } = answer.body
        const { publishable_key } = await api.call(getPortalPaymentForm, {})
        return toBank(
          platform,
          visit,
          '/billing',
          { client_secret, publishable_key },
          { ...(body.set_default ? { set_default: 'on' } : {}), ...(flow === null ? {} : { flow }) },
        )
      }
      if (form.get('do') === 'remove') {
        const answer = await api.send(deletePortalPaymentMethod, { params: { id: form.get('payment_method_id') ?? '' } })
        return answer.status === 204 ? doneAt(visit, '/billing', 'method_removed', flow) : show(visit, { complaints: complaintsOf(answer), flow })
      }
      const draft = Object.fromEntries(
        ['billing_name', 'tax_id', ...parts.map((part) => `billing_address.${part}`)].map((name) => [name, form.get(name) ?? '']),
      )
      if (form.get('do') === 'address') return show(visit, { draft })
      const address = Object.fromEntries(parts.map((part) => [part, draft[`billing_address.${part}`]!]))
      const answer = await api.send(updatePortalCustomer, {
        body: {
          billing_name: draft.billing_name!,
          tax_id: draft.tax_id!,
          // An address requires a country. Address fields without a country are sent too, so that the API reports the
          // error instead of dropping them.
          ...(Object.values(address).every((part) => part.trim() === '') ? {} : { billing_address: address as never }),
        },
      })
      return answer.status === 200 ? doneAt(visit, '/billing', 'details_saved') : show(visit, { complaints: complaintsOf(answer), draft })
    },
  )

  const bank = bankPages(platform, payments, {
    path: '/billing',
    answered: async (visit, setup_intent_id, flow) => {
      const answer = await visit.api.send(confirmPortalPaymentMethod, { body: { setup_intent_id, set_default: visit.call.query.has('set_default') } })
      if (answer.status === 201 && answer.body.status === 'succeeded') return doneAt(visit, '/billing', 'method_added', flow)
      return show(visit, { complaints: answer.status === 201 ? [{ loc: [], type: 'method_asks', msg: '' }] : complaintsOf(answer), flow })
    },
  })
  return [...pages, ...bank]
}
