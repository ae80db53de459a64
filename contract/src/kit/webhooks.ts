import type { z } from 'zod'

/** A webhook event type: its name, its payload and when it is sent. */
export interface Webhook<Data extends z.ZodType = z.ZodType> {
  readonly kind: string
  readonly data: Data
  readonly when: string
}

export const webhook = <Data extends z.ZodType>(kind: string, data: Data, when: string): Webhook<Data> => ({ kind, data, when })
