import { connectPaymentAccount, getPaymentAccount, listOrganizations, type PaymentAccount } from '@bursar/contract'
import { Refused, type Client } from '@bursar/contract/client'
import type { z } from 'zod'
import { apiOf, tokenOf, type Door } from './door.ts'
import { asPerson } from './person.ts'
import { connectTo } from './send.ts'
import { Usage } from './usage.ts'

interface Values extends Door {
  json?: boolean | undefined
  organization?: string | undefined
  email?: string | undefined
}

type Shown = z.input<typeof PaymentAccount>

/**
 * Connects an organization's own Stripe account, or shows the connected one. Connecting signs a user in, because no
 * token may change where money goes. Keys come from the environment, because other users of the machine can read a
 * command's arguments.
 */
export const payments = async ([verb]: readonly string[], values: Values): Promise<void> => {
  if (verb !== 'connect' && verb !== 'status') throw new Usage('bursar payments takes connect or status')
  const keys = verb === 'connect' ? readKeys() : undefined
  try {
    const account = keys
      ? await asPerson(apiOf(values), emailOf(values), async (api) =>
          api.call(connectPaymentAccount, { params: { id: await organizationOf(api, values.organization) }, body: keys }),
        )
      : await statusOf(connectTo(apiOf(values), statusTokenOf(values)), values)
    show(values, account)
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    if (error.reply.status === 404 && verb === 'status') throw new Error('no payment account is connected', { cause: error })
    throw error
  }
}

const statusTokenOf = (values: Values): string => {
  if (values.token === undefined && !process.env.BURSAR_TOKEN)
    throw new Usage('payments status needs a token of the organization: --token or BURSAR_TOKEN. It does not use those of a running bursar dev')
  return tokenOf(values)
}

const statusOf = async (api: Client, { organization }: Values): Promise<Shown> =>
  api.call(getPaymentAccount, { params: { id: await organizationOf(api, organization) } })

const emailOf = ({ email }: Values): string => {
  if (!email) throw new Usage('--email is needed: the address of an owner or admin of the organization, who gets a sign-in code')
  return email
}

const readKeys = () => {
  const { STRIPE_SECRET_KEY: secret_key, STRIPE_PUBLISHABLE_KEY: publishable_key, STRIPE_WEBHOOK_SECRET: webhook_secret } = process.env
  if (!secret_key || !publishable_key)
    throw new Usage('set the environment variables STRIPE_SECRET_KEY and STRIPE_PUBLISHABLE_KEY, and STRIPE_WEBHOOK_SECRET when the webhook endpoint exists')
  return { secret_key, publishable_key, ...(webhook_secret ? { webhook_secret } : {}) }
}

const organizationOf = async (api: Client, slug: string | undefined): Promise<string> => {
  const { items } = await api.call(listOrganizations, { query: { limit: 2, ...(slug === undefined ? {} : { slug }) } })
  if (items.length !== 1)
    throw new Usage(
      slug === undefined
        ? 'this token has access to several organizations: choose one with --organization <slug>'
        : `there is no organization ${slug}, or this token has no access to it`,
    )
  return items[0]!.id
}

const show = ({ json }: Values, account: Shown): void => {
  if (json) return void process.stdout.write(`${JSON.stringify(account)}\n`)
  const lines = [
    `processor       ${account.processor} ${account.processor_account_id ?? ''}`,
    `secret key      ${account.secret_key_hint ?? '–'}`,
    `publishable key ${account.publishable_key ?? '–'}`,
    `signing secret  ${account.webhook_secret_hint ?? 'none: events are rejected'}`,
    `events go to    ${account.events_url}`,
  ]
  if (account.webhook_secret_hint === null && account.processor === 'stripe')
    lines.push('', 'Create a webhook endpoint for this address at Stripe, and connect again with STRIPE_WEBHOOK_SECRET.')
  process.stdout.write(`${lines.join('\n')}\n`)
}
