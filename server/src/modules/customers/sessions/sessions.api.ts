import {
  authenticatePortalCode,
  createCustomerSession,
  CustomerSessionCodeInvalidOrExpired,
  endCustomerSession,
  exchangePortalCode,
  introspectCustomerSession,
  requestPortalCode,
  Unauthorized,
} from '@bursar/contract'
import { readCode } from '../../../kernel/secrets.ts'
import type { Config } from '../../../platform/config.ts'
import { periodicTask, job, read, refuse, write } from '../../handlers.ts'
import { callerOf, portalCookiePrefix, setCookie } from '../../identity/index.ts'
import { findOrganization } from '../../organizations/index.ts'
import { presentCustomer } from '../customers/customers.ts'
import * as sessions from './sessions.ts'
import { findSession } from './sessions.sql.ts'

const cookie = (config: Config, organization_id: string, value: string, seconds: number) =>
  setCookie(config, portalCookiePrefix(config) + organization_id, value, seconds)

export const operations = [
  write(createCustomerSession, async (tx, { scope, body, platform }) => {
    const { session, token, customer, code } = await sessions.createCustomerSession(tx, scope, platform, body)
    const { slug } = (await findOrganization(tx, scope, session.organization_id))!
    return {
      ...session,
      modified_at: null,
      token: token.reveal(),
      // The URL contains a one-time code, never the token, because URLs end up in histories and logs.
      customer_portal_url: new URL(`/${slug}/portal?code=${code.reveal()}`, platform.config.public_url).href,
      customer: presentCustomer(customer),
    }
  }),
  read(introspectCustomerSession, async (db, { actor }) => {
    const session = await findSession(db, actor.organization_id, actor.credential_id)
    if (!session) throw new Unauthorized('This session has ended.')
    return session
  }),
  write(endCustomerSession, async (tx, { actor, platform, reply }) => {
    await sessions.endCustomerSession(tx, actor.organization_id, actor.credential_id)
    reply['set-cookie'] = cookie(platform.config, actor.organization_id, '', 0)
  }),
  write(requestPortalCode, async (tx, { body, platform, reply, ...call }) => {
    reply['set-cookie'] = await sessions.requestCode(tx, platform, callerOf(call), body)
  }),
  write(authenticatePortalCode, async (tx, { body, platform, reply, ...call }) => {
    const answer = await sessions.authenticate(tx, platform, callerOf(call), { ...body, code: readCode(body.code) })
    // Returns the refusal instead of throwing it, so that the counted attempt is committed.
    if (!answer) return refuse(new CustomerSessionCodeInvalidOrExpired())
    if ('choices' in answer) return { token: null, expires_at: null, customers: [...answer.choices] }
    reply['set-cookie'] = answer.recognised
    return { token: answer.opened.token.reveal(), expires_at: answer.opened.session.expires_at, customers: [] }
  }),
  write(exchangePortalCode, async (tx, { body, platform, reply }) => {
    const { session, token } = await sessions.exchange(tx, platform, body.code)
    const seconds = Math.max(1, Math.floor((session.expires_at.getTime() - tx.clock.wall().getTime()) / 1000))
    reply['set-cookie'] = cookie(platform.config, session.organization_id, token.reveal(), seconds)
    return session
  }),
]

export const jobs = [job('mail.customer_session_code', sessions.mailCode), job('mail.customer_session_leaked', sessions.mailLeak)]
export const periodicTasks = [periodicTask('customers.purge', sessions.purge)]
