import { tokens, readers, writers, managers, migrating, type Policy } from './shared.ts'

export const migration: Readonly<Record<string, Policy>> = {
  'member-migration:get': {
    who: tokens,
    scopes: readers,
    roles: managers,
    ask: (t) => ({ path: `/v1/member-migration/?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  // Our tenant's organization was created with members. It therefore refuses every step of the member migration.
  'member-migration:rehearse': {
    who: tokens,
    scopes: writers,
    roles: managers,
    ask: (t) => ({ path: `/v1/member-migration/rehearsal?organization_id=${t.organization_id}` }),
    granted: [409, 'MigrationNotPossible'],
    foreign: 'invalid',
  },
  'member-migration:export': {
    who: tokens,
    scopes: writers,
    roles: managers,
    ask: (t) => ({ path: `/v1/member-migration/rehearsal/export?organization_id=${t.organization_id}` }),
    granted: [409, 'MigrationNotPossible'],
    foreign: 'invalid',
  },
  'member-migration:start': migrating('start', 'MigrationSealed'),
  'member-migration:switch': migrating('switch', 'MigrationSealed'),
  'member-migration:undo': migrating('undo', 'MigrationSealed'),
  'member-migration:seal': migrating('seal', 'MigrationSealed'),
  'member-migration:id-map': {
    who: tokens,
    scopes: readers,
    ask: (t) => ({ path: `/v1/member-migration/id-map?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  'member-migration:id-map:export': {
    who: tokens,
    scopes: readers,
    ask: (t) => ({ path: `/v1/member-migration/id-map/export?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
  'member-migration:readiness': {
    who: tokens,
    scopes: readers,
    roles: managers,
    ask: (t) => ({ path: `/v1/member-migration/readiness?organization_id=${t.organization_id}` }),
    granted: 200,
    foreign: 'invalid',
  },
}
