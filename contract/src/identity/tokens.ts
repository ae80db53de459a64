import { z } from 'zod'
import {
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  filter,
  resource,
  ResourceNotFound,
  session,
  sorting,
  stamps,
  text,
  timestamp,
  uuid,
} from '../kit/index.ts'
import { scopes } from '../scopes.ts'

export const TokenScope = named('TokenScope', z.enum(scopes))

/** The maximum lifetime of a token: ten years, in seconds. */
const longest = 315_360_000

const duration = /^P(?=.)(?:(\d{1,5})D)?(?:T(?=.)(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,9})S)?)?$/

/**
 * The lifetime of a token: a number of seconds, or an ISO 8601 duration of days, hours, minutes and seconds. Parsed to
 * seconds. A token with a lifetime of null never expires.
 */
const expiresIn = () =>
  z
    .union([z.int(), z.string().regex(duration, 'Use a duration such as P90D or PT12H.')])
    .transform((given) => {
      if (typeof given === 'number') return given
      const [day = 0, hour = 0, minute = 0, second = 0] = duration
        .exec(given)!
        .slice(1)
        .map((part) => Number(part ?? 0))
      return ((day * 24 + hour) * 60 + minute) * 60 + second
    })
    .refine((seconds) => seconds > 0 && seconds <= longest, 'Choose more than 0 seconds and at most ten years.')
    .nullish()
    .describe('Seconds, or an ISO 8601 duration such as P90D: more than 0, at most ten years. Null never expires.')

const common = {
  ...stamps,
  id: uuid(),
  comment: z.string(),
  scopes: z.array(TokenScope),
  expires_at: timestamp().nullable(),
  last_used_at: timestamp().nullable(),
  hint: z.string().describe('The start and the last four characters of the token, to identify it.'),
}

export const OrganizationAccessToken = resource('OrganizationAccessToken', { ...common, organization_id: uuid() })
export type OrganizationAccessToken = z.output<typeof OrganizationAccessToken>

export const PersonalAccessToken = resource('PersonalAccessToken', common)
export type PersonalAccessToken = z.output<typeof PersonalAccessToken>

const chosenScopes = () => z.array(TokenScope).min(1).max(scopes.length)
const changes = { comment: text(1, 256).optional(), scopes: chosenScopes().optional() }

const read = 'organization_access_tokens:read'
const write = 'organization_access_tokens:write'
const byId = z.object({ id: uuid() })

export const listOrganizationTokens = operation({
  id: 'organization_access_tokens:list',
  method: 'GET',
  path: '/v1/organization-access-tokens/',
  summary: 'List organization access tokens',
  access: session([read, write]),
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    ...pageQuery,
    sorting: sorting('OrganizationAccessTokenSortProperty', ['created_at', 'comment', 'last_used_at', 'organization_id'], ['created_at']),
  }),
  returns: page('OrganizationAccessTokenPage', OrganizationAccessToken),
  fails: [],
})

export const createOrganizationToken = operation({
  id: 'organization_access_tokens:create',
  method: 'POST',
  path: '/v1/organization-access-tokens/',
  summary: 'Create an organization access token',
  description: 'The token itself is shown in this answer only.',
  access: session(write, { fresh: true }),
  costs: 'none',
  body: resource('OrganizationAccessTokenCreate', {
    organization_id: uuid().optional(),
    comment: text(1, 256),
    expires_in: expiresIn(),
    scopes: chosenScopes(),
  }),
  reveals: true,
  returns: resource('OrganizationAccessTokenCreated', { organization_access_token: OrganizationAccessToken, token: z.string() }),
  status: 201,
  fails: [NotPermitted],
})

export const updateOrganizationToken = operation({
  id: 'organization_access_tokens:update',
  method: 'PATCH',
  path: '/v1/organization-access-tokens/{id}',
  summary: 'Update an organization access token',
  access: session(write, { fresh: true }),
  costs: 'none',
  params: byId,
  body: resource('OrganizationAccessTokenUpdate', changes),
  returns: OrganizationAccessToken,
  fails: [NotPermitted, ResourceNotFound],
})

export const revokeOrganizationToken = operation({
  id: 'organization_access_tokens:delete',
  method: 'DELETE',
  path: '/v1/organization-access-tokens/{id}',
  summary: 'Revoke an organization access token',
  description: 'The token is rejected from the next request on.',
  access: session(write),
  costs: 'none',
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})

export const listPersonalTokens = operation({
  id: 'personal_access_tokens:list',
  method: 'GET',
  path: '/v1/personal_access_tokens/',
  summary: 'List your personal access tokens',
  access: session(['user:read', 'user:write']),
  costs: 'none',
  query: z.object({ ...pageQuery, sorting: sorting('PersonalAccessTokenSortProperty', ['created_at', 'comment', 'last_used_at'], ['created_at']) }),
  returns: page('PersonalAccessTokenPage', PersonalAccessToken),
  fails: [],
})

export const createPersonalToken = operation({
  id: 'personal_access_tokens:create',
  method: 'POST',
  path: '/v1/personal_access_tokens/',
  summary: 'Create a personal access token',
  description: 'The token acts as you, in every organization you belong to. It is shown in this answer only.',
  access: session('user:write', { fresh: true }),
  costs: 'none',
  body: resource('PersonalAccessTokenCreate', { comment: text(1, 256), expires_in: expiresIn(), scopes: chosenScopes() }),
  reveals: true,
  returns: resource('PersonalAccessTokenCreated', { personal_access_token: PersonalAccessToken, token: z.string() }),
  status: 201,
  fails: [NotPermitted],
})

export const updatePersonalToken = operation({
  id: 'personal_access_tokens:update',
  method: 'PATCH',
  path: '/v1/personal_access_tokens/{id}',
  summary: 'Update a personal access token',
  access: session('user:write', { fresh: true }),
  costs: 'none',
  params: byId,
  body: resource('PersonalAccessTokenUpdate', changes),
  returns: PersonalAccessToken,
  fails: [NotPermitted, ResourceNotFound],
})

export const revokePersonalToken = operation({
  id: 'personal_access_tokens:delete',
  method: 'DELETE',
  path: '/v1/personal_access_tokens/{id}',
  summary: 'Revoke a personal access token',
  description: 'The token is rejected from the next request on.',
  access: session('user:write'),
  costs: 'none',
  params: byId,
  fails: [NotPermitted, ResourceNotFound],
})
