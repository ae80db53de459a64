import { connectPaymentAccount, getPaymentAccount, listOrganizations, type PaymentAccount } from '@bursar/contract'
import { Refused, type Client } from '@bursar/contract/client'
import type { z } from 'zod'
import { apiOf, tokenOf, type Door } from './door.ts'
import { connectTo } from './send.ts'
import { Usage } from './usage.ts'

interface Values extends Door {
  json?: boolean | undefined
  organization?: string | undefined
}

type Shown = z.input<typeof PaymentAccount>

/** Connects an organization's own account at Stripe, or shows which one is. Keys come from the environment: what is typed behind a command is seen by others. */
export const payments = async ([verb]: readonly string[], values: Values): Promise<void> => {
  if (verb !== 'connect' && verb !== 'status') throw new Usage('bursar payments takes connect or status')
  const keys = verb === 'connect' ? readKeys() : undefined
  const api = connectTo(apiOf(values), tokenOf(values))
  try {
    const params = { id: await organizationOf(api, values.organization) }
    show(values, keys ? await api.call(connectPaymentAccount, { params, body: keys }) : await api.call(getPaymentAccount, { params }))
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    const { detail } = error.reply.body
    const said = Array.isArray(detail) ? (detail as { msg: string }[]).map(({ msg }) => msg).join('; ') : String(detail)
    throw new Error(
      error.reply.status === 404 && verb === 'status' ? 'no payment account is connected' : `the API refuses with ${error.reply.status}: ${said}`,
      { cause: error },
    )
  }
}

const readKeys = () => {
  const { STRIPE_SECRET_KEY: secret_key, STRIPE_PUBLISHABLE_KEY: publishable_key, STRIPE_WEBHOOK_SECRET: webhook_secret } = process.env
  if (!secret_key || !publishable_key) throw new Usage('set STRIPE_SECRET_KEY and STRIPE_PUBLISHABLE_KEY, and STRIPE_WEBHOOK_SECRET once there is an endpoint')
  return { secret_key, publishable_key, ...(webhook_secret ? { webhook_secret } : {}) }
}

const organizationOf = async (api: Client, slug: string | undefined): Promise<string> => {
  const { items } = await api.call(listOrganizations, { query: { limit: 2, ...(slug === undefined ? {} : { slug }) } })
  if (items.length !== 1)
    throw new Usage(slug === undefined ? 'this token reaches several organizations: say which with --organization <slug>' : `there is no organization ${slug}`)
  return items[0]!.id
}

const show = ({ json }: Values, account: Shown): void => {
  if (json) return void process.stdout.write(`${JSON.stringify(account)}\n`)
  const lines = [
    `processor       ${account.processor} ${account.processor_account_id ?? ''}`,
    `secret key      ${account.secret_key_hint ?? '–'}`,
    `publishable key ${account.publishable_key ?? '–'}`,
    `signing secret  ${account.webhook_secret_hint ?? 'none: events are refused'}`,
    `events go to    ${account.events_url}`,
  ]
  if (account.webhook_secret_hint === null && account.processor === 'stripe')
    lines.push('', 'Make an endpoint for this address at Stripe, and connect again with STRIPE_WEBHOOK_SECRET.')
  process.stdout.write(`${lines.join('\n')}\n`)
}
