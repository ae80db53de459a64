import { z } from 'zod'
import { filter, operation, page, pageQuery, resource, ResourceNotFound, session, sorting, stamps, timestamp, uuid } from '../kit/index.ts'
import { OAuth2ClientPublic } from './oauth.ts'
import { TokenScope } from './tokens.ts'

export const OAuth2Grant = resource('OAuth2Grant', {
  ...stamps,
  client: OAuth2ClientPublic,
  scopes: z.array(TokenScope),
  organizations: z.array(uuid()).describe('The organizations that the app may act in. Empty: all that you belong to, including later ones.'),
  last_authorized_at: timestamp(),
})

export const listGrants = operation({
  id: 'oauth2:grants:list',
  method: 'GET',
  path: '/v1/oauth2/grants',
  summary: 'List the apps that act for you',
  access: session(['user:read', 'user:write']),
  costs: 'none',
  query: z.object({ client_id: filter(z.string()), ...pageQuery, sorting: sorting('OAuth2GrantSortProperty', ['created_at'], ['-created_at']) }),
  returns: page('OAuth2GrantPage', OAuth2Grant),
  fails: [],
})

export const withdrawGrant = operation({
  id: 'oauth2:grants:delete',
  method: 'DELETE',
  path: '/v1/oauth2/grants/{client_id}',
  summary: 'Revoke the access of an app',
  description: 'Its tokens are rejected from the next request on. The app must ask for consent again.',
  access: session('user:write'),
  costs: 'none',
  params: z.object({ client_id: z.string().max(200) }),
  fails: [ResourceNotFound],
})
