import type { Area } from '../handlers.ts'
import * as clients from './clients/clients.api.ts'
import * as grants from './grants/grants.api.ts'
import * as invitations from './invitations/invitations.api.ts'
import * as leaks from './leaks/leaks.api.ts'
import * as memberships from './memberships/memberships.api.ts'
import * as oauth from './oauth/oauth.api.ts'
import * as sessions from './sessions/sessions.api.ts'
import * as tokens from './tokens/tokens.api.ts'

export const area: Area = {
  operations: [
    ...tokens.operations,
    ...sessions.operations,
    ...memberships.operations,
    ...invitations.operations,
    ...leaks.operations,
    ...clients.operations,
    ...grants.operations,
    ...oauth.operations,
  ],
  jobs: [...oauth.jobs, ...sessions.jobs, ...invitations.jobs, ...leaks.jobs],
  sweeps: invitations.sweeps,
  chores: [...sessions.chores, ...oauth.chores],
  personal: {
    users: { columns: { email: 'address' } },
    organization_invitations: { columns: { email: 'address' } },
    sign_in_codes: { columns: { email: 'address' } },
  },
  secret: { second_factors: ['sealed'] },
}

export { InvalidToken, openUsage, resolve, type Keys, type Usage } from './credentials/credentials.ts'
export { addCredential, dropCredentials, findSubject, forgetSubjects, takeSubject } from './credentials/credentials.sql.ts'
export { managersOf } from './leaks/leaks.sql.ts'
export { vouch } from './clients/clients.ts'
export { openKeys, rotate as rotateKeys, signClaims } from './keys/keys.ts'
export { openOAuth, protocolPaths, type OAuth } from './oauth/provider.ts'
export { pagesOf } from './pages/pages.page.ts'
export { cookieName, hostCookie, portalCookiePrefix, readCookie, setCookie } from './sessions/cookies.ts'
export { createUser, personBehind, startSession } from './sessions/sessions.ts'
export { findUserByEmail } from './sessions/sessions.sql.ts'
export { issueOrganizationToken, issuePersonalToken, revokeTokenOf, tokensOf } from './tokens/tokens.ts'
