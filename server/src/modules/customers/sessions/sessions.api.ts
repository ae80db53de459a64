import {
  authenticatePortalCode,
  createCustomerSession,
  CustomerSessionCodeInvalidOrExpired,
  endCustomerSession,
  exchangePortalCode,
  getPortalUser,
  introspectCustomerSession,
  requestPortalCode,
  Unauthorized,
} from '@bursar/contract'
import { readCode } from '../../../kernel/secrets.ts'
import type { Config } from '../../../platform/config.ts'
import { chore, job, read, refuse, write } from '../../handlers.ts'
import { portalCookiePrefix, setCookie } from '../../identity/index.ts'
import { findOrganization } from '../../organizations/index.ts'
import { present } from '../customers/customers.ts'
import { findPerson } from '../portal/portal.ts'
import { authenticate, create, end, exchange, mailCode, mailLeak, purge, requestCode } from './sessions.ts'
import { findSession } from './sessions.sql.ts'

const cookie = (config: Config, organization_id: string, value: string, seconds: number) =>
  setCookie(config, portalCookiePrefix(config) + organization_id, value, seconds)

export const operations = [
  write(createCustomerSession, async (tx, { reach, body, platform }) => {
    const { session, token, customer, code } = await create(tx, reach, platform, body)
    const { slug } = (await findOrganization(tx, reach, session.organization_id))!
    return {
      ...session,
      modified_at: null,
      token: token.reveal(),
      // A code that works once, never the token: addresses end up in histories and logs.
      customer_portal_url: new URL(`/${slug}/portal?code=${code.reveal()}`, platform.config.public_url).href,
      customer: present(customer),
    }
  }),
  read(introspectCustomerSession, async (db, { actor }) => {
    const session = await findSession(db, actor.organization_id, actor.credential_id)
    if (!session) throw new Unauthorized('This session has ended.')
    return session
  }),
  read(getPortalUser, async (db, { actor, reach }) => {
    const { name, email } = await findPerson(db, reach, actor)
    const { customer_id, member_id } = actor
    return {
      type: member_id === null ? ('customer' as const) : ('member' as const),
      name,
      email,
      customer_id,
      member_id,
      role: member_id === null ? null : actor.role,
    }
  }),
  write(endCustomerSession, async (tx, { actor, platform, reply }) => {
    await end(tx, actor.organization_id, actor.credential_id)
    reply['set-cookie'] = cookie(platform.config, actor.organization_id, '', 0)
  }),
  write(requestPortalCode, async (tx, { body }) => {
    await requestCode(tx, body.organization_id, body.email)
  }),
  write(authenticatePortalCode, async (tx, { body, platform }) => {
    const answer = await authenticate(tx, platform, { ...body, code: readCode(body.code) })
    // The spent try must stay spent, so this refusal commits.
    if (!answer) return refuse(new CustomerSessionCodeInvalidOrExpired())
    if ('choices' in answer) return { token: null, expires_at: null, customers: [...answer.choices] }
    return { token: answer.opened.token.reveal(), expires_at: answer.opened.session.expires_at, customers: [] }
  }),
  write(exchangePortalCode, async (tx, { body, platform, reply }) => {
    const { session, token } = await exchange(tx, platform, body.code)
    const seconds = Math.max(1, Math.floor((session.expires_at.getTime() - tx.clock.wall().getTime()) / 1000))
    reply['set-cookie'] = cookie(platform.config, session.organization_id, token.reveal(), seconds)
    return session
  }),
]

export const jobs = [job('mail.customer_session_code', mailCode), job('mail.customer_session_leaked', mailLeak)]
export const chores = [chore('customers.purge', purge)]
