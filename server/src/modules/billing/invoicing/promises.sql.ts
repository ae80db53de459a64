import { sql } from 'kysely'
import type { JobName } from '../../../platform/jobs/catalogue.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    mails: { organization_id: string; kind: string; reference: string; moment: Date; promised_at: Date }
  }
}

type MailName = Extract<JobName, 'mail.order_receipt' | 'mail.payment_failed' | 'mail.renewal_reminder' | 'mail.trial_ending' | 'mail.card_expiring'>

/** The field of the job that names what the mail is about. */
const abouts: Record<MailName, 'order_id' | 'subscription_id' | 'payment_method_id'> = {
  'mail.order_receipt': 'order_id',
  'mail.payment_failed': 'order_id',
  'mail.renewal_reminder': 'subscription_id',
  'mail.trial_ending': 'subscription_id',
  'mail.card_expiring': 'payment_method_id',
}

/**
 * Enqueues a mail about an order, a subscription or a payment method. Idempotent: the same mail about the same row and `moment` is
 * enqueued once.
 */
export const promiseMail = (tx: Tx, name: MailName, { organization_id, id }: { organization_id: string; id: string }, moment: Date): Promise<void> =>
  promiseMails(tx, name, [{ organization_id, id, moment }])

/** Enqueues mails of one kind about several rows, like `promiseMail`. */
export const promiseMails = async (
  tx: Tx,
  name: MailName,
  about: readonly { readonly organization_id: string; readonly id: string; readonly moment: Date }[],
): Promise<void> => {
  if (about.length === 0) return
  const { rows } = await sql<{ organization_id: string; reference: string }>`
    insert into mails (organization_id, kind, reference, moment, promised_at)
    select organization_id, ${name}, reference, moment, ${tx.clock.wall()} from unnest(${about.map(({ organization_id }) => organization_id)}::uuid[],
      ${about.map(({ id }) => id)}::uuid[], ${about.map(({ moment }) => moment)}::timestamptz[]) as m (organization_id, reference, moment)
    on conflict do nothing returning organization_id, reference`.execute(tx.q)
  for (const { organization_id, reference } of rows) await enqueue(tx, name, { organization_id, [abouts[name]]: reference } as never)
}
