import { verify } from 'node:crypto'
import { InvalidSignature, PublicKeyNotFound, type LeakedToken } from '@bursar/contract'
import type { z } from 'zod'
import { readToken, Secret, tokenKinds } from '../../../kernel/secrets.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { accountUrl, languageOfSeller, sendMail } from '../../organizations/index.ts'
import { dropCredentials, findSubject, forgetSubjects, type Subject } from '../credentials/credentials.sql.ts'
import { endFamilies, familyOf } from '../grants/oauth.sql.ts'
import { signOut } from '../sessions/sessions.ts'
import { revokeOrganizationToken, revokePersonalToken } from '../tokens/tokens.ts'
import { findAllowed } from '../grants/grants.sql.ts'
import { clientLeak, managersOf, organizationLeak, personalLeak } from './leaks.sql.ts'

/** Rejects a reporter whose key the operator has not configured. Otherwise an attacker could probe which tokens are valid. */
export const checkReporter = (platform: Platform, headers: Readonly<Record<string, string | string[] | undefined>>, body: Buffer): void => {
  const key = platform.config.scanning_keys.get(String(headers['github-public-key-identifier']))
  if (!key) throw new PublicKeyNotFound()
  const signature = Buffer.from(String(headers['github-public-key-signature'] ?? ''), 'base64')
  if (!verify('sha256', body, key, signature)) throw new InvalidSignature()
}

/** Revokes a reported token if it was issued by this service, regardless of the reported kind. Mails the owner. */
export const killLeaked = async (tx: Tx, platform: Platform, reported: z.output<typeof LeakedToken>) => {
  const secret = new Secret(reported.token)
  const reading = readToken(reported.token)
  const subject =
    typeof reading === 'string' || reading.environment !== platform.config.environment ? undefined : await findSubject(tx, platform.hasher, secret)
  if (subject) await kill(tx, subject)
  const token_type = typeof reading === 'string' ? reported.type : tokenKinds[reading.kind].report
  return { token_raw: reported.token, token_type, label: subject ? ('true_positive' as const) : ('false_positive' as const) }
}

const kill = async (tx: Tx, { kind, subject_id, organization_id }: Subject): Promise<void> => {
  switch (kind) {
    case 'organization':
      await revokeOrganizationToken(tx, { organization_id: organization_id!, id: subject_id })
      for (const user_id of await managersOf(tx, organization_id!))
        await enqueue(tx, 'mail.organization_token_leaked', { organization_id: organization_id!, token_id: subject_id, user_id })
      return
    case 'personal':
      await revokePersonalToken(tx, { id: subject_id })
      return enqueue(tx, 'mail.personal_token_leaked', { token_id: subject_id })
    case 'session':
      return signOut(tx, subject_id)
    case 'customer_session':
    case 'member_session':
    case 'portal_code':
      // If one secret of a portal session leaks, all its secrets are revoked. Delete the code first: this waits for a
      // concurrent exchange of the code. The secret created by that exchange is then revoked too.
      await dropCredentials(tx, 'portal_code', subject_id)
      await forgetSubjects(tx, [subject_id])
      return enqueue(tx, 'mail.customer_session_leaked', { organization_id: organization_id!, session_id: subject_id })
    case 'oauth_access':
    case 'oauth_refresh':
    case 'oauth_code': {
      // A leak of any OAuth token ends the whole authorization. The app must then ask the user for consent again.
      const family = await familyOf(tx, subject_id)
      if (!family) return
      await endFamilies(tx, [family.id])
      return enqueue(tx, 'mail.app_token_leaked', { user_id: family.user_id, client_id: family.client })
    }
    case 'client_secret':
      await dropCredentials(tx, kind, subject_id)
      return enqueue(tx, 'mail.client_secret_leaked', { client_id: subject_id })
    case 'checkout':
      // A checkout secret is not revoked. It is part of the URL of the buyer's checkout page and gives access to one
      // purchase for a day. Revoking it would only block the buyer.
      return
    case 'checkout_link':
      // A checkout link is meant to be public, so it is not revoked.
      return
    case 'invitation':
    case 'email_change':
    case 'seat_invitation':
    case 'client_registration':
    case 'sign_in':
      await dropCredentials(tx, kind, subject_id)
  }
}

export const mailOrganization = async (
  deps: Deps,
  { organization_id, token_id, user_id }: { organization_id: string; token_id: string; user_id: string },
): Promise<void> => {
  const leak = await organizationLeak(deps.db, organization_id, token_id, user_id)
  if (!leak) return
  const { email: to, organization_name: organization, hint, comment } = leak
  const tokens_url = accountUrl(deps.platform, `/settings/organizations/${organization_id}/tokens`)
  await sendMail(deps, { to, seller: null, language: languageOfSeller(leak), view: { kind: 'token_leaked', organization, hint, comment, tokens_url } })
}

export const mailPerson = async (deps: Deps, { token_id }: { token_id: string }): Promise<void> => {
  const leak = await personalLeak(deps.db, token_id)
  if (!leak) return
  const { email: to, hint, comment } = leak
  const tokens_url = accountUrl(deps.platform, '/settings/tokens')
  await sendMail(deps, { to, seller: null, language: 'en', view: { kind: 'token_leaked', organization: null, hint, comment, tokens_url } })
}

export const mailAppUser = async (deps: Deps, { user_id, client_id }: { user_id: string; client_id: string }): Promise<void> => {
  const found = await findAllowed(deps.db, user_id, client_id)
  if (!found) return
  const view = { kind: 'app_token_leaked', app: found.client_name, apps_url: accountUrl(deps.platform, '/settings/apps') } as const
  await sendMail(deps, { to: found.email, seller: null, language: 'en', view })
}

export const mailClientOwner = async (deps: Deps, { client_id }: { client_id: string }): Promise<void> => {
  const leak = await clientLeak(deps.db, client_id)
  if (!leak) return
  const view = { kind: 'client_secret_leaked', app: leak.client_name, client_id: leak.client_id, docs_url: accountUrl(deps.platform, '/docs') } as const
  await sendMail(deps, { to: leak.email, seller: null, language: 'en', view })
}
