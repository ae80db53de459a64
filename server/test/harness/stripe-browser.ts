import { connectPaymentAccount } from '@bursar/contract'
import type { BrowserContext } from './browser.ts'
import type { StripeStandIn } from './stripe.ts'
import type { Visit } from './stripe-books.ts'
import { exchange, type World } from './world.ts'

type Account = ReturnType<StripeStandIn['account']>

/**
 * Replaces Stripe's script in the browser, which never fetches the real one. It implements only the functions that the
 * pages call. The payment form shows its options as text. `window.formOptions` has the last options of the form.
 */
const script = `window.Stripe = (key) => ({
  elements: (options) => {
    window.formOptions = options
    return {
      create: (kind, given = {}) => {
        const heard = {}
        return {
          on: (name, work) => void (heard[name] = work),
          mount: (place) => {
            if (kind === 'expressCheckout') {
              const button = document.createElement('button')
              button.type = 'button'
              button.className = 'primary'
              button.textContent = 'Stand-in wallet'
              button.addEventListener('click', () => heard.click({ resolve: () => heard.confirm({ paymentFailed: () => undefined }) }))
              place.append(button)
              heard.ready({ availablePaymentMethods: { applePay: true } })
            } else place.textContent = [key, kind, options.mode, options.amount, options.currency, ...options.allowedPaymentMethodTypes, given.fields ? 'our fields' : 'own fields'].join(' ')
          },
        }
      },
      update: (changes) => void Object.assign(window.formOptions, changes),
      submit: async () => ({}),
    }
  },
  createConfirmationToken: async ({ params }) => ({ confirmationToken: { id: await typed(JSON.stringify(params ?? null)) } }),
  handleNextAction: async ({ clientSecret }) => { await answered(clientSecret); return {} },
})`

/** Prepares a browser in which the buyer types this card and gives these answers to the bank. */
export const withStripe = async (context: BrowserContext, account: Account, card: string, answers: boolean[]) => {
  const details: string[] = []
  await context.route('https://js.stripe.com/**', (route) => route.fulfill({ contentType: 'text/javascript', body: script }))
  await context.exposeFunction('typed', (params: string) => {
    details.push(params)
    return account.token(card)
  })
  await context.exposeFunction('answered', (secret: string) => account.complete(secret, answers.shift()!))
  return details
}

const acts: Readonly<Record<string, Visit>> = { Pay: 'pays', Refuse: 'refuses', 'Pay later': 'pays_later', 'Fail later': 'fails_later' }

/**
 * Opens the other site in this browser: a page with a link for each act of the buyer. `changes` may alter the address at
 * which the buyer returns.
 */
export const withOtherSite = async (context: BrowserContext, account: Account, changes: (back: URL) => URL = (back) => back): Promise<void> => {
  await context.route('https://pm-redirects.stripe.com/**', (route) => {
    const url = new URL(route.request().url())
    const act = url.searchParams.get('act')
    url.search = ''
    if (act !== null) return route.fulfill({ status: 303, headers: { location: changes(new URL(account.visit(url.href, act as Visit))).href } })
    const links = Object.entries(acts).map(([name, value]) => `<p><a href="${url.href}?act=${value}">${name}</a></p>`)
    return route.fulfill({ contentType: 'text/html', body: `<!doctype html><title>Bank</title><h1>The other site</h1>${links.join('')}` })
  })
}

/** A seller with an account at the stand-in for Stripe. */
export const shopWithStripe = async (world: World, processor: StripeStandIn) => {
  const shop = await world.shop()
  const account = processor.account()
  const { secret_key, publishable_key, webhook_secret } = account
  const { events_url } = await (
    await shop.dashboard()
  ).call(connectPaymentAccount, {
    params: { id: shop.organization.id },
    body: { secret_key, publishable_key, webhook_secret },
  })
  /** Delivers Stripe's events to the account's webhook address. */
  const tell = () => processor.deliver((_, headers, body) => exchange(world.port, 'POST', new URL(events_url).pathname, headers, body))
  return { ...shop, account, tell }
}
