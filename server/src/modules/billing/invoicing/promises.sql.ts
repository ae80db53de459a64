import type { JobName } from '../../../platform/jobs/catalogue.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    mails: { organization_id: string; kind: string; reference: string; moment: Date; promised_at: Date }
  }
}

type About<N extends JobName> = N extends 'mail.order_receipt' | 'mail.payment_failed' ? 'order_id' : 'subscription_id'
type MailName = Extract<JobName, 'mail.order_receipt' | 'mail.payment_failed' | 'mail.renewal_reminder' | 'mail.trial_ending'>

const abouts: { readonly [N in MailName]: About<N> } = {
  'mail.order_receipt': 'order_id',
  'mail.payment_failed': 'order_id',
  'mail.renewal_reminder': 'subscription_id',
  'mail.trial_ending': 'subscription_id',
}

/**
 * Enqueues a mail about an order or a subscription. Idempotent: the same mail about the same row and `moment` is
 * enqueued once.
 */
export const promiseMail = async (tx: Tx, name: MailName, { organization_id, id }: { organization_id: string; id: string }, moment: Date): Promise<void> => {
  const done = await tx.q
    .insertInto('mails')
    .values({ organization_id, kind: name, reference: id, moment, promised_at: tx.clock.wall() })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  if ((done.numInsertedOrUpdatedRows ?? 0n) > 0n) await enqueue(tx, name, { organization_id, [abouts[name]]: id } as never)
}
