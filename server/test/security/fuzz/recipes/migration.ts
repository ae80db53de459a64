import { startMemberMigration, switchMemberMigration } from '@bursar/contract'
import { bearer } from '../../matrix/targets.ts'
import type { Recipe } from './recipes.ts'
import type { Stage } from '../stage.ts'

/** Opens an organization that has not begun the member migration. */
const openLegacy = async ({ world }: Stage) => {
  const shop = await world.shop()
  await shop.phase('before')
  return { ...shop, credential: bearer((await shop.organization.token()).secret.reveal()) }
}

/** Makes a request of an organization in the given state of the migration. */
const migrating = (path: string, state: 'before' | 'phase1' | 'phase2', body?: object): Recipe => ({
  allowed: ['organization'],
  make: async (stage) => {
    const { api, credential } = await openLegacy(stage)
    if (state !== 'before') {
      await api.call(startMemberMigration, { body: {} })
      await stage.work.sweep('migration.work', 20)
    }
    if (state === 'phase2') {
      await api.call(switchMemberMigration, { body: {} })
      await stage.work.sweep('migration.work', 20)
    }
    return () => ({ path: `/v1/member-migration/${path}`, ...(body ? { body } : {}), credential })
  },
})

export const migrationRecipes: Readonly<Record<string, Recipe>> = {
  'member-migration:rehearse': migrating('rehearsal', 'before'),
  'member-migration:export': migrating('rehearsal/export', 'before'),
  'member-migration:start': migrating('start', 'before', {}),
  'member-migration:switch': migrating('switch', 'phase1', {}),
  'member-migration:undo': migrating('undo', 'phase1', {}),
  'member-migration:seal': migrating('seal', 'phase2', {}),
}
