import { verify } from 'node:crypto'
import { InvalidSignature, PublicKeyNotFound, type LeakedToken } from '@bursar/contract'
import type { z } from 'zod'
import { readToken, Secret, tokenKinds } from '../../../kernel/secrets.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
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

const warning = (what: string, hint: string, comment: string) =>
  `${what} was found in a public place and has been revoked:\n\n  ${hint}  (${comment})\n\nPrograms that used it have stopped working. Create a new token, and keep it out of code and logs.`

export const mailOrganization = async (
  { db, gateways }: Deps,
  { organization_id, token_id, user_id }: { organization_id: string; token_id: string; user_id: string },
): Promise<void> => {
  const leak = await organizationLeak(db, organization_id, token_id, user_id)
  if (leak)
    await gateways.mail.send({
      to: leak.email,
      subject: `A leaked access token of ${leak.organization_name} was revoked`,
      text: warning(`An access token of ${leak.organization_name}`, leak.hint, leak.comment),
    })
}

export const mailPerson = async ({ db, gateways }: Deps, { token_id }: { token_id: string }): Promise<void> => {
  const leak = await personalLeak(db, token_id)
  if (leak)
    await gateways.mail.send({
      to: leak.email,
      subject: 'A leaked personal access token was revoked',
      text: warning('A personal access token of yours', leak.hint, leak.comment),
    })
}

export const mailAppUser = async ({ db, gateways }: Deps, { user_id, client_id }: { user_id: string; client_id: string }): Promise<void> => {
  const found = await findAllowed(db, user_id, client_id)
  if (found)
    await gateways.mail.send({
      to: found.email,
      subject: `A leaked token of ${found.client_name} was revoked`,
      text: `A token with which the app "${found.client_name}" acts for you was found in a public place and has been revoked.\n\nThe app will ask for your consent again. If you no longer trust it, remove it from your connected apps.`,
    })
}

export const mailClientOwner = async ({ db, gateways }: Deps, { client_id }: { client_id: string }): Promise<void> => {
  const leak = await clientLeak(db, client_id)
  if (leak)
    await gateways.mail.send({
      to: leak.email,
      subject: `The leaked secret of ${leak.client_name} was revoked`,
      text: `The client secret of your app "${leak.client_name}" (${leak.client_id}) was found in a public place and has been revoked. The app can no longer get tokens.\n\nTo get a new secret, send its configuration again: PUT /v1/oauth2/register/${leak.client_id}`,
    })
}
