import type { Area } from '../handlers.ts'
import * as invitations from './invitations/invitations.api.ts'
import * as leaks from './leaks/leaks.api.ts'
import * as memberships from './memberships/memberships.api.ts'
import * as sessions from './sessions/sessions.api.ts'
import * as tokens from './tokens/tokens.api.ts'

export const area: Area = {
  operations: [...tokens.operations, ...sessions.operations, ...memberships.operations, ...invitations.operations, ...leaks.operations],
  jobs: [...sessions.jobs, ...invitations.jobs, ...leaks.jobs],
  sweeps: invitations.sweeps,
  chores: sessions.chores,
}

export { InvalidToken, openUsage, resolve, type Keys, type Usage } from './credentials/credentials.ts'
export { addCredential, dropCredentials, findSubject, forgetSubjects, takeSubject } from './credentials/credentials.sql.ts'
export { managersOf } from './leaks/leaks.sql.ts'
export { cookieName, portalCookiePrefix, setCookie } from './sessions/sessions.api.ts'
export { createUser, startSession } from './sessions/sessions.ts'
export { findUserByEmail } from './sessions/sessions.sql.ts'
export { issueOrganizationToken, issuePersonalToken, revokeTokenOf, tokensOf } from './tokens/tokens.ts'
