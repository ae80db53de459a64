import { sweep, type Area } from '../handlers.ts'
import { operations as ids } from './ids/ids.api.ts'
import { operations as members } from './members/members.api.ts'
import { work } from './members/working.ts'
import { operations as readiness } from './readiness/readiness.api.ts'

export { openReadiness } from './readiness/readiness.ts'

export const area: Area = {
  operations: [...members, ...ids, ...readiness],
  jobs: [],
  sweeps: [sweep('migration.work', work)],
  periodicTasks: [],
}

export { importLegacy, type Imported } from './importing/importing.ts'
export type { BundleLine } from './importing/records.ts'
