import { tokens, readers, writers, managers, unique, type Policy } from './shared.ts'

export const organizations: Readonly<Record<string, Policy>> = {
  'organizations:list': { who: tokens, scopes: readers, ask: () => ({ path: '/v1/organizations/?limit=100' }), granted: 200 },
  'organizations:create': {
    who: ['personal', 'oauth', 'session'],
    scopes: writers,
    ask: () => ({ path: '/v1/organizations/', body: { name: 'Matrix', slug: `matrix-${unique()}`, avatar_url: 'https://changed.example/logo.png' } }),
    confined: '403 CannotCreateOrganizationError',
    granted: 201,
  },
  'organizations:get': { who: tokens, scopes: readers, ask: (t) => ({ path: `/v1/organizations/${t.organization_id}` }), granted: 200, foreign: 'absent' },
  'organizations:update': {
    who: tokens,
    scopes: writers,
    roles: managers,
    ask: (t) => ({
      path: `/v1/organizations/${t.organization_id}`,
      body: { website: 'https://changed.example', avatar_url: 'https://changed.example/logo.png' },
    }),
    granted: 200,
    foreign: 'absent',
  },
  'audit-log:list': {
    who: tokens,
    scopes: ['organizations:read', 'organizations:write'],
    roles: managers,
    ask: (t) => ({ path: `/v1/audit-log/?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
}
