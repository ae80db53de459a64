import { z } from 'zod'
import { openAccess } from '../kit/index.ts'

/** The access rule of operations whose credential is the checkout's client secret in the path. Pages of any origin may call them. */
export const holder = { access: openAccess({ anyOrigin: true }), params: z.object({ client_secret: z.string().min(1).max(200) }) }
