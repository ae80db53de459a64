import type { MemberMigrationPlan } from '@bursar/contract'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { inSnapshot, type Db } from '../../../platform/postgres/postgres.ts'
import { findLoadedSeat, presentSeat } from '../../billing/index.ts'
import { findCustomers, presentCustomer } from '../../customers/index.ts'
import { findLoadedGrant, presentGrant } from '../../entitlements/index.ts'
import { needAhead } from './migrating.ts'
import { allowTime } from './migrations.sql.ts'
import { findSamples, readPlan } from './planning.sql.ts'

/** Maximum number of rows of each kind in the response. The exported file contains all rows. */
const most = 1000

type Sample = MemberMigrationPlan['samples'][number]

/** Computes the plan of the migration without applying it. Runs in a read-only snapshot, so that the database rejects any change. */
export const runDry = (db: Db, scope: TenantScope, organization_id: string): Promise<MemberMigrationPlan> =>
  inSnapshot(db, async (seen) => {
    needAhead(scope, organization_id)
    await allowTime(seen)
    const { counts, ...parts } = await readPlan(seen, organization_id, most)
    return { organization_id, counts, ...parts, samples: await samplesOf(seen, organization_id, parts.gone[0]) } as unknown as MemberMigrationPlan
  })

/** Returns one seat, one grant and one customer as both phases show them. Webhook events about these records contain the same data. */
const samplesOf = async (db: Db, organization_id: string, gone: string | undefined): Promise<Sample[]> => {
  const { seat_id, grant_id } = await findSamples(db, organization_id)
  const both = async (
    resource: string,
    id: string | null | undefined,
    show: (scope: TenantScope, id: string) => Promise<object | undefined>,
  ): Promise<Sample[]> => {
    if (!id) return []
    const as = async (phase: 'phase1' | 'phase2') => ({ ...((await show(within(organization_id, 'machine', phase), id)) ?? { status: 404 }) })
    return [{ resource, id, before: await as('phase1'), after: await as('phase2') }]
  }
  return [
    ...(await both('customer_seat', seat_id, async (scope, id) => {
      const loaded = await findLoadedSeat(db, scope, id)
      return loaded && presentSeat(scope, loaded)
    })),
    ...(await both('benefit_grant', grant_id, async (scope, id) => {
      const loaded = await findLoadedGrant(db, scope, id)
      return loaded && presentGrant(loaded)
    })),
    ...(await both('customer', gone, async (scope, id) => {
      const [customer] = await findCustomers(db, scope, { id })
      return customer && presentCustomer(customer)
    })),
  ]
}
