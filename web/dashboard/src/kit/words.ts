import type { Tone } from './bits.tsx'

/** The tone of each status of a resource. A status that is not listed is neutral. */
const tones: Readonly<Record<string, Tone>> = {
  paid: 'good',
  active: 'good',
  trialing: 'good',
  succeeded: 'good',
  granted: 'good',
  claimed: 'good',
  delivered: 'good',
  pending: 'wait',
  draft: 'off',
  incomplete: 'wait',
  past_due: 'bad',
  unpaid: 'bad',
  failed: 'bad',
  refunded: 'off',
  partially_refunded: 'wait',
  void: 'off',
  canceled: 'off',
  revoked: 'off',
}
export const toneOf = (status: string): Tone => tones[status] ?? 'off'
