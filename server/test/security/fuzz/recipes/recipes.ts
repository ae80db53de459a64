import { createSign, generateKeyPairSync } from 'node:crypto'
import { inviteMember, requestEmailUpdate, requestSignInCode, verifySignInCode } from '@bursar/contract'
import { Secret } from '../../../../src/kernel/secrets.ts'
import { createCustomer, openCustomerSession } from '../../../../src/modules/customers/index.ts'
import { createCustomerSession } from '../../../../src/modules/customers/sessions/sessions.ts'
import { beginFactor, codeAt, confirmFactor, stepOf } from '../../../../src/modules/identity/factors/factors.ts'
import { codeIn } from '../../../harness/mail.ts'
import { openApp, openVisitor } from '../../../harness/visitor.ts'
import { exchange } from '../../../harness/world.ts'
import { bearer } from '../../matrix/targets.ts'
import { unique } from '../../matrix/policies/shared.ts'
import { migrationRecipes } from './migration.ts'
import { salesRecipes } from './sales.ts'
import { sessionHeaders, type CredentialKind, type Stage, type Tenant } from '../stage.ts'
import type { Make } from '../valid.ts'

/** A valid request of an operation whose row in the matrix is refused for every caller. */
export interface Recipe {
  /** Credentials that the operation accepts, if they differ from those of the matrix. */
  readonly allowed?: readonly CredentialKind[]
  readonly make: Make
}

/** The key that signs reports of leaked tokens. */
const scanning = generateKeyPairSync('ec', { namedCurve: 'P-256' })
export const recipeSettings = { BURSAR_SCANNING_KEYS: JSON.stringify({ key1: scanning.publicKey.export({ type: 'spki', format: 'pem' }) }) }

const address = (name: string): string => `${name}-${unique()}@people.test`

/** Requests a sign-in code, and reads it in the mail. */
const signInCode = async ({ world, work }: Stage, email: string): Promise<string> => {
  await world.client().call(requestSignInCode, { body: { email } })
  return codeIn(await work.mailed('mail.sign_in_code'))
}

const bytesOf = (base32: string): Buffer => {
  const bits = base32
    .split('')
    .map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'))
    .join('')
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)))
}

/** Creates a person with a second factor, signed in up to that factor. Returns a recovery code and the pending cookie. */
const halfSignedIn = async (stage: Stage) => {
  const { world } = stage
  const person = await world.person()
  const session = { user_id: person.id, credential_id: person.id }
  const begun = (await world.transact((tx) => beginFactor(tx, world.platform, { ...session, email: person.email })))!
  const secret = new Secret(bytesOf(begun.secret).toString('base64'))
  const recovery = await world.transact((tx) => confirmFactor(tx, world.platform, session, codeAt(secret, stepOf(world.clock.wall()))))
  const code = await signInCode(stage, person.email)
  const answer = await world.client().send(verifySignInCode, { body: { email: person.email, code } })
  return { code: recovery![0]!, cookie: answer.headers.get('set-cookie')!.split(';')[0]! }
}

/** Runs the whole OAuth flow for a person. */
const oauthTokens = async ({ world }: Stage, { people }: Tenant) => {
  const cookie = await people.admin.cookie()
  const app = await openApp(world, {}, cookie)
  return { app, tokens: await app.tokens(openVisitor(world, cookie)) }
}

const fresh = (organization_id: string, { world, seeds }: Stage) =>
  world.transact((tx) => createCustomer(tx, seeds.inside(organization_id), { email: address('customer') }))

/** Requests a change of a new customer's address, and reads the link in the mail. */
const emailChange = async (stage: Stage, { organization }: Tenant): Promise<string> => {
  const { world, work } = stage
  const customer = await fresh(organization.id, stage)
  const whose = { organization_id: organization.id, customer_id: customer.id, member_id: null }
  const { token } = await world.transact((tx) => openCustomerSession(tx, world.platform, whose))
  await world.client({ token }).call(requestEmailUpdate, { body: { email: address('changed') } })
  return /token=(\S+)/.exec(await work.mailed('mail.customer_email_change'))![1]!
}

export const recipes: Readonly<Record<string, Recipe>> = {
  ...salesRecipes,
  ...migrationRecipes,
  'organizations:accept_invitation': {
    make: async ({ world, work }) => {
      const owner = await world.person()
      const { id } = await world.organization({ owner: owner.id })
      const guest = await world.person()
      await world.client({ cookie: await owner.cookie() }).call(inviteMember, { params: { id }, body: { email: guest.email } })
      const token = /bursar_test_inv_\w{43}/.exec(await work.mailed('mail.organization_invitation'))![0]
      const credential = sessionHeaders(world, await guest.cookie())
      return () => ({ path: '/v1/organization-invitations/accept', body: { token }, credential })
    },
  },
  'auth:verify_code': {
    make: async (stage) => {
      const { email } = await stage.world.person()
      const code = await signInCode(stage, email)
      return () => ({ path: '/v1/auth/email-otp/verify', body: { email, code } })
    },
  },
  'auth:renew_session': {
    make: async (stage) => {
      const person = await stage.world.person()
      const code = await signInCode(stage, person.email)
      const credential = sessionHeaders(stage.world, await person.cookie())
      return () => ({ path: '/v1/auth/session/renew', body: { code }, credential })
    },
  },
  'auth:verify_second_factor': {
    make: async (stage) => {
      const { code, cookie } = await halfSignedIn(stage)
      return () => ({ path: '/v1/auth/second-factor', body: { code }, headers: { cookie } })
    },
  },
  'oauth2:userinfo': {
    allowed: ['oauth'],
    make: async (stage, tenant) => {
      const { tokens } = await oauthTokens(stage, tenant)
      return () => ({ path: '/v1/oauth2/userinfo', credential: bearer(tokens.access_token) })
    },
  },
  'oauth2:introspect_token': {
    allowed: ['none'],
    make: async (stage, tenant) => {
      const { app, tokens } = await oauthTokens(stage, tenant)
      return () => ({ path: '/v1/oauth2/introspect', form: { ...app.credentials(), token: tokens.access_token } })
    },
  },
  'oauth2:revoke_token': {
    allowed: ['none'],
    make: async (stage, tenant) => {
      const { app, tokens } = await oauthTokens(stage, tenant)
      return () => ({ path: '/v1/oauth2/revoke', form: { ...app.credentials(), token: tokens.access_token } })
    },
  },
  'oauth2:request_token': {
    allowed: ['none'],
    make: async (stage, tenant) => {
      const { app, tokens } = await oauthTokens(stage, tenant)
      return () => ({ path: '/v1/oauth2/token', form: { ...app.credentials(), grant_type: 'refresh_token', refresh_token: tokens.refresh_token } })
    },
  },
  'integrations:report_leaked_tokens': {
    make: async () => {
      const signed = JSON.stringify([{ token: 'unknown', type: 'some_token', url: 'https://gist.example/1', source: 'content' }])
      const signature = createSign('sha256').update(signed).sign(scanning.privateKey, 'base64')
      const headers = { 'github-public-key-identifier': 'key1', 'github-public-key-signature': signature }
      return () => ({ path: '/v1/integrations/github/secret-scanning', signed, headers })
    },
  },
  'customer_portal:organizations:get': {
    make:
      async (_, { organization }) =>
      () => ({ path: `/v1/customer-portal/organizations/${organization.slug}` }),
  },
  'customer_portal:customer-session:authenticate': {
    make: async (stage, { organization }) => {
      const { email } = await fresh(organization.id, stage)
      const asked = { organization_id: organization.id, email: email! }
      await exchange(stage.world.port, 'POST', '/v1/customer-portal/customer-session/request', { 'content-type': 'application/json' }, JSON.stringify(asked))
      const code = codeIn(await stage.work.mailed('mail.customer_session_code'))
      return () => ({ path: '/v1/customer-portal/customer-session/authenticate', body: { ...asked, code } })
    },
  },
  'customer_portal:customer-session:exchange': {
    make: async (stage, { organization }) => {
      const { world, seeds } = stage
      const { id } = await fresh(organization.id, stage)
      const { code } = await world.transact((tx) => createCustomerSession(tx, seeds.inside(organization.id), world.platform, { customer_id: id }))
      return () => ({ path: '/v1/customer-portal/customer-session/exchange', body: { code: code.reveal() } })
    },
  },
  'customer_portal:customers:check_email_update': {
    make: async (stage, tenant) => {
      const token = await emailChange(stage, tenant)
      return () => ({ path: `/v1/customer-portal/customers/me/email-update/check?token=${token}` })
    },
  },
  'customer_portal:customers:verify_email_update': {
    make: async (stage, tenant) => {
      const token = await emailChange(stage, tenant)
      return () => ({ path: '/v1/customer-portal/customers/me/email-update/verify', body: { token } })
    },
  },
}
