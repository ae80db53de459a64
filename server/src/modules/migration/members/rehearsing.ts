import type { MemberMigrationPlan } from '@bursar/contract'
import { within, type Reach } from '../../../kernel/actors.ts'
import { inSnapshot, type Db } from '../../../platform/postgres/postgres.ts'
import { findSeat, showSeats } from '../../billing/index.ts'
import { findCustomers, presentCustomer } from '../../customers/index.ts'
import { findGrant, loadGrants, presentGrant } from '../../entitlements/index.ts'
import { needAhead } from './migrating.ts'
import { allowTime } from './migrations.sql.ts'
import { findSamples, readPlan } from './planning.sql.ts'

/** So many of each kind are shown; the file has them all. */
const most = 1000

type Sample = MemberMigrationPlan['samples'][number]

/** What would happen, as one moment's data has it. Nothing is changed: the database would refuse it. */
export const rehearse = (db: Db, reach: Reach, organization_id: string): Promise<MemberMigrationPlan> =>
  inSnapshot(db, async (seen) => {
    needAhead(reach, organization_id)
    await allowTime(seen)
    const { counts, ...parts } = await readPlan(seen, organization_id, most)
    return { organization_id, counts, ...parts, samples: await samplesOf(seen, organization_id, parts.gone[0]) } as unknown as MemberMigrationPlan
  })

/** One of each kind, as both phases show it; an event about it carries the same. */
const samplesOf = async (db: Db, organization_id: string, gone: string | undefined): Promise<Sample[]> => {
  const { seat_id, grant_id } = await findSamples(db, organization_id)
  const both = async (resource: string, id: string | null | undefined, show: (reach: Reach, id: string) => Promise<object | undefined>): Promise<Sample[]> => {
    if (!id) return []
    const as = async (phase: 'phase1' | 'phase2') => ({ ...((await show(within(organization_id, 'machine', phase), id)) ?? { status: 404 }) })
    return [{ resource, id, before: await as('phase1'), after: await as('phase2') }]
  }
  return [
    ...(await both('customer_seat', seat_id, async (reach, id) => {
      const seat = await findSeat(db, reach, id)
      return seat && (await showSeats(db, reach, [seat]))[0]
    })),
    ...(await both('benefit_grant', grant_id, async (reach, id) => {
      const grant = await findGrant(db, reach, id)
      return grant && presentGrant((await loadGrants(db, reach, [grant]))[0]!)
    })),
    ...(await both('customer', gone, async (reach, id) => {
      const [customer] = await findCustomers(db, reach, { id })
      return customer && presentCustomer(customer)
    })),
  ]
}
