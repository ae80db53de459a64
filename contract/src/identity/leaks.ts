import { z } from 'zod'
import { failure, openAccess, operation, resource } from '../kit/index.ts'

export const PublicKeyNotFound = failure('PublicKeyNotFound', 400, 'The report is signed with a key that this deployment does not know.')
export const InvalidSignature = failure('InvalidSignature', 403, 'The signature does not match the report.')

export const LeakedToken = resource('LeakedToken', {
  token: z.string().min(1).max(500),
  type: z.string().max(200),
  url: z.string().max(5000).nullish(),
  source: z.string().max(200).nullish(),
})

export const reportLeaks = operation({
  id: 'integrations:report_leaked_tokens',
  method: 'POST',
  path: '/v1/integrations/github/secret-scanning',
  summary: 'Report leaked tokens',
  description:
    'For secret-scanning services. The raw body is signed (ECDSA P-256, SHA-256, base64) in `github-public-key-signature` with the key named in `github-public-key-identifier`. Every token of this deployment is revoked at once, and its owner is notified.',
  access: openAccess(),
  costs: 'mail',
  body: z.array(LeakedToken).max(1000).meta({ id: 'LeakReport' }),
  returns: z.array(resource('LeakVerdict', { token_raw: z.string(), token_type: z.string(), label: z.enum(['true_positive', 'false_positive']) })),
  fails: [PublicKeyNotFound, InvalidSignature],
})

export const listTokenPatterns = operation({
  id: 'integrations:token_patterns',
  method: 'GET',
  path: '/v1/integrations/token-patterns',
  summary: 'List the patterns of our tokens',
  description: 'Regular expressions for secret scanners: every credential that this software issues matches exactly one of them.',
  access: openAccess({ anyOrigin: true }),
  costs: 'none',
  returns: resource('TokenPatterns', { patterns: z.array(resource('TokenPattern', { type: z.string(), pattern: z.string() })) }),
  fails: [],
})
