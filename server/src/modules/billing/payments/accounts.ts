import { invalidAt, InvalidRequest, PaymentAccountRefused, ResourceNotFound, type PaymentAccount, type PaymentAccountConnect } from '@bursar/contract'
import type { z } from 'zod'
import type { Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newWebhookSecret, Secret, type Environment } from '../../../kernel/secrets.ts'
import { ProcessorRefusal } from '../../../gateways/payments/payments.ts'
import { later } from '../../../platform/clock.ts'
import { unleased } from '../../../platform/jobs/leases.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { findOrganization, permit } from '../../organizations/index.ts'
import { changeAccount, findConnected, findDefault, holdAccounts, insertAccount } from './accounts.sql.ts'
import { readUpEvery } from './hearing.ts'
import type { PaymentAccountRow } from './payments.sql.ts'

type Wish = z.output<typeof PaymentAccountConnect>

/** Nobody who may not change where the money goes gets as far as having keys tried; and test money never meets live money. */
export const look = async ({ db, gateways, platform }: Means, reach: Reach, id: string, body: Wish): Promise<{ id: string }> => {
  await allow(db, reach, id, 'finance:manage')
  refuseMode(platform.config.environment, body)
  try {
    return await gateways.payments.inspect(new Secret(body.secret_key))
  } catch (error) {
    if (error instanceof ProcessorRefusal) throw new PaymentAccountRefused(error.message)
    throw error
  }
}

/** Stores the keys of an account that was tried, sealed. The same account connected again keeps its name, and all that was charged with it. */
export const connect = async (
  tx: Tx,
  reach: Reach,
  platform: Platform,
  id: string,
  body: Wish,
  account: { id: string },
): Promise<{ organization_id: string }> => {
  await holdAccounts(tx, id)
  await allow(tx, reach, id, 'finance:manage')
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
      // Until the endpoint's own is known, nobody knows what events would have to be signed with.
      secret_sealed: seal(newWebhookSecret()),
      webhook_hint: null,
      is_default: true,
      ...keys,
      ...unleased,
      clock_id: null,
      heard_until: tx.clock.wall(),
      due_at: later(tx.clock.wall(), readUpEvery),
    })
  return { organization_id: id }
}

/** The account that new payments go to. */
export const find = async (db: Db, reach: Reach, platform: Platform, id: string): Promise<PaymentAccount> => {
  await allow(db, reach, id, 'finance:read')
  const row = await findDefault(db, id)
  if (!row) throw new ResourceNotFound()
  return present(platform, row)
}

const allow = async (db: Db, reach: Reach, id: string, permission: 'finance:read' | 'finance:manage'): Promise<void> => {
  if (!(await findOrganization(db, reach, id))) throw new ResourceNotFound()
  permit(reach, id, permission)
}

const refuseMode = (environment: Environment, body: Wish): void => {
  const mode = environment === 'production' ? 'live' : 'test'
  const wrong = (['secret_key', 'publishable_key'] as const).filter((field) => body[field].split('_')[1] !== mode)
  if (wrong.length > 0)
    // What was sent is a secret: it is not sent back.
    throw new InvalidRequest(wrong.map((field) => invalidAt(['body', field], `This is ${environment}: only keys of ${mode} mode work here.`)))
}

/** The beginning that says what it is, and the end to recognise it by. */
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
