import { randomText } from '../../../src/kernel/secrets.ts'
import type { Lane } from './stage.ts'

const name = (kind: string): string => `test_${kind}_${randomText(24, '0123456789abcdefghijklmnopqrstuvwxyz')}`

/** Simulates the cardholder's bank. Opens and decides disputes in the test processor's tables, and delivers the events about them. */
export const openBank = ({ ask, hear, wall }: Pick<Lane, 'ask' | 'hear' | 'wall'>) => {
  const report = async (account: string, dispute: string): Promise<void> => {
    await ask(`insert into test_processor.callbacks (account, event_id, kind, object_id, happened_at, due_at) values ($1, $2, 'dispute.updated', $3, $4, $4)`, [
      account,
      name('evt'),
      dispute,
      wall(),
    ])
    await hear()
  }

  return {
    /** Opens a dispute over the part of a charge that is not refunded yet. */
    open: async (intent_id: string, status: 'needs_response' | 'under_review'): Promise<void> => {
      const [opened] = await ask<{ account: string; id: string }>(
        `insert into test_processor.disputes (account, id, created_at, intent_id, status, amount, currency, reason)
         select account, $2, $3, intent_id, $4, amount - (select coalesce(sum(r.amount), 0) from test_processor.refunds r
           where r.account = c.account and r.intent_id = c.intent_id and r.status in ('pending', 'succeeded')), currency, 'fraudulent'
         from test_processor.charges c where intent_id = $1 returning account, id`,
        [intent_id, name('dis'), wall(), status],
      )
      await report(opened!.account, opened!.id)
    },
    decide: async (dispute_id: string, status: 'won' | 'lost'): Promise<void> => {
      const [decided] = await ask<{ account: string }>('update test_processor.disputes set status = $2, respond_by = null where id = $1 returning account', [
        dispute_id,
        status,
      ])
      await report(decided!.account, dispute_id)
    },
  }
}
