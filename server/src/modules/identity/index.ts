import type { Area } from '../handlers.ts'
import * as clients from './clients/clients.api.ts'
import * as grants from './oauth/grants.api.ts'
import * as invitations from './memberships/invitations.api.ts'
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
  periodicTasks: [...sessions.periodicTasks, ...oauth.periodicTasks],
  personal: {
    users: { columns: { email: 'address' } },
    organization_invitations: { columns: { email: 'address' } },
    sign_in_codes: { columns: { email: 'address' } },
  },
  secret: { second_factors: ['sealed'] },
}

export { InvalidToken, openUsage, resolve, type Keys, type Usage } from './credentials/credentials.ts'
export {
  addCredential,
  credentialsIn,
  dropCredentials,
  findSubject,
  forgetSubjects,
  insertCredential,
  readCredential,
  resolvedCredential,
  takeSubject,
  type CredentialRow,
  type FindCredential,
  type PresentedSecret,
  type Resolved,
} from './credentials/credentials.sql.ts'
export { managersOf } from './leaks/leaks.sql.ts'
export { vouch } from './clients/clients.ts'
export { findClient } from './clients/clients.sql.ts'
export { beginFactor, confirmFactor, endFactor, factorOf, pendingFactor } from './factors/factors.ts'
export { isPending } from './factors/factors.sql.ts'
export { allowApp, withdrawApp } from './grants/grants.ts'
export { findGrant, listGrantsOf, organizationsOf } from './grants/grants.sql.ts'
export { openKeys, rotateKeys, signClaims } from './keys/keys.ts'
export { openOAuth, type Interaction, type OAuth } from './oauth/provider.ts'
export { documentationPath, protocolPaths } from './oauth/options.ts'
export { accept as acceptInvitation, findInvitation } from './memberships/invitations.ts'
export { callerOf, codeBrowserOf, codeLife, keepCodeBrowser, originOf, readCodeBrowser, recogniseBrowser, type Caller } from './sessions/browsers.ts'
export { matchCode, requestMailedCode, triesPerCode } from './sessions/codes.ts'
export { cookieName, hostCookie, pendingCookieName, portalCookiePrefix, readCookie, setCookie } from './sessions/cookies.ts'
export { preferenceCookies } from './sessions/preferences.ts'
export {
  createUser,
  findSessionRoles,
  freshFor,
  personBehind,
  requestCode,
  restartSessions,
  sessionLife,
  signIn,
  signInFully,
  signOut,
  signOutEverywhere,
  startSession,
} from './sessions/sessions.ts'
export { countSessions, findUserByEmail } from './sessions/sessions.sql.ts'
export {
  findOrganizationToken,
  findPersonalToken,
  issueOrganizationToken,
  issuePersonalToken,
  revokeOrganizationToken,
  revokePersonalToken,
  revokeTokenOf,
  tokensOf,
} from './tokens/tokens.ts'
export { listOrganizationTokens, listPersonalTokens } from './tokens/tokens.sql.ts'
