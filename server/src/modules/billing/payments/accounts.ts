import { invalidAt, InvalidRequest, PaymentAccountRefused, ResourceNotFound, type PaymentAccount, type PaymentAccountConnect } from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newWebhookSecret, Secret, type Environment } from '../../../kernel/secrets.ts'
import { ProcessorRefusal } from '../../../gateways/payments/payments.ts'
import { later } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { accountUrl, findOrganization, languageOfSeller, permit, sendMail } from '../../organizations/index.ts'
import { changeAccount, findChange, findConnected, findDefault, findOwners, holdAccounts, insertAccount } from './accounts.sql.ts'
import { readUpEvery } from './processor-events.ts'
import type { PaymentAccountRow } from './payments.sql.ts'

type AccountRequest = z.output<typeof PaymentAccountConnect>

/**
 * Checks the permission and the mode of the key, then tests the key at the processor. A caller without permission
 * cannot test a key. Test keys are refused in production, and live keys in a sandbox.
 */
export const look = async ({ db, gateways, platform }: Deps, scope: TenantScope, id: string, body: AccountRequest): Promise<{ id: string }> => {
  await allow(db, scope, id, 'finance:manage')
  refuseMode(platform.config.environment, body)
  try {
    return await gateways.payments.inspect(new Secret(body.secret_key))
  } catch (error) {
    if (error instanceof ProcessorRefusal) throw new PaymentAccountRefused(error.message)
    throw error
  }
}

/**
 * Stores the encrypted keys of a payment account after the key was tested. An account that is connected again keeps its
 * id, and with it its payments and saved methods.
 */
export const connect = async (
  tx: Tx,
  scope: TenantScope,
  platform: Platform,
  id: string,
  body: AccountRequest,
  account: { id: string },
): Promise<{ organization_id: string }> => {
  await holdAccounts(tx, id)
  await allow(tx, scope, id, 'finance:manage')
  const known = await findConnected(tx, id, account.id)
  const row_id = known?.id ?? newId(tx.clock.wall())
  const { sealer } = platform
  const seal = (secret: Secret) => sealer.seal(secret, `payment account ${row_id}`)
  const keys = {
    key_sealed: sealer.seal(new Secret(body.secret_key), `payment account key ${row_id}`),
    key_hint: hint(body.secret_key, 8),
    publishable_key: body.publishable_key,
    ...(body.webhook_secret ? { secret_sealed: seal(new Secret(body.webhook_secret)), webhook_hint: hint(body.webhook_secret, 6) } : {}),
  }
  if (known) await changeAccount(tx, known, { ...keys, modified_at: tx.clock.wall(), due_at: tx.clock.wall() })
  else
    await insertAccount(tx, {
      organization_id: id,
      id: row_id,
      created_at: tx.clock.wall(),
      modified_at: null,
      processor: 'stripe',
      processor_account_id: account.id,
      // If the request has no webhook secret, stores a random one. No event can have a valid signature then.
      secret_sealed: seal(newWebhookSecret()),
      webhook_hint: null,
      is_default: true,
      ...keys,
      ...unleased,
      clock_id: null,
      heard_until: tx.clock.wall(),
      due_at: later(tx.clock.wall(), readUpEvery),
    })
  for (const { user_id } of await findOwners(tx, id)) await enqueue(tx, 'mail.payment_account_changed', { organization_id: id, account_id: row_id, user_id })
  return { organization_id: id }
}

/** Job that emails one owner that the payment account of the organization, or its keys, changed. */
export const mailChanged = async (
  deps: Deps,
  { organization_id, account_id, user_id }: { organization_id: string; account_id: string; user_id: string },
): Promise<void> => {
  const change = await findChange(deps.db, organization_id, account_id, user_id)
  if (!change) return
  const { email: to, organization_name: organization, processor_account_id: account, key_hint } = change
  const security_url = accountUrl(deps.platform, '/settings/security')
  await sendMail(deps, {
    to,
    seller: null,
    language: languageOfSeller(change),
    view: { kind: 'payment_account_changed', organization, account: account ?? '–', key_hint: key_hint ?? '–', security_url },
  })
}

/** Returns the account that new payments go to. */
export const requirePaymentAccount = async (db: Db, scope: TenantScope, platform: Platform, id: string): Promise<PaymentAccount> => {
  await allow(db, scope, id, 'finance:read')
  const row = await findDefault(db, id)
  if (!row) throw new ResourceNotFound()
  return present(platform, row)
}

const allow = async (db: Db, scope: TenantScope, id: string, permission: 'finance:read' | 'finance:manage'): Promise<void> => {
  if (!(await findOrganization(db, scope, id))) throw new ResourceNotFound()
  permit(scope, id, permission)
}

const refuseMode = (environment: Environment, body: AccountRequest): void => {
  const mode = environment === 'production' ? 'live' : 'test'
  const wrong = (['secret_key', 'publishable_key'] as const).filter((field) => body[field].split('_')[1] !== mode)
  if (wrong.length > 0)
    // The error does not repeat the received value, because it is a secret.
    throw new InvalidRequest(wrong.map((field) => invalidAt(['body', field], `This is ${environment}: only keys of ${mode} mode are accepted.`)))
}

/** Shortens a secret for display: its prefix shows the type, and its last four characters identify it. */
const hint = (secret: string, beginning: number): string => `${secret.slice(0, beginning)}…${secret.slice(-4)}`

const present = ({ config }: Platform, row: PaymentAccountRow): PaymentAccount => ({
  id: row.id,
  created_at: row.created_at,
  modified_at: row.modified_at,
  organization_id: row.organization_id,
  processor: row.processor,
  processor_account_id: row.processor_account_id,
  publishable_key: row.publishable_key,
  secret_key_hint: row.key_hint,
  webhook_secret_hint: row.webhook_hint,
  events_url: new URL(`/v1/payment-accounts/${row.organization_id}/${row.id}/events`, config.public_url).href,
})
