import { newId } from '../../../src/kernel/ids.ts'
import type { Policy, Target } from './policy.ts'

const absentId = () => newId(new Date())
/** Returns ids that name nothing. */
export const absent = (): Target => ({
  organization_id: absentId(),
  member_id: absentId(),
  invitation_id: absentId(),
  organization_token_id: absentId(),
  personal_token_id: absentId(),
  product_id: absentId(),
  meter_id: absentId(),
  discount_id: absentId(),
  benefit_id: absentId(),
  custom_field_id: absentId(),
  customer_id: absentId(),
  customer_external_id: absentId(),
  person_id: absentId(),
  person_external_id: absentId(),
  endpoint_id: absentId(),
  event_id: absentId(),
  replay_id: absentId(),
  client_id: absentId(),
  checkout_id: absentId(),
  checkout_secret: absentId(),
  order_id: absentId(),
  refund_id: absentId(),
  payment_id: absentId(),
  dispute_id: absentId(),
  payment_method_id: absentId(),
  subscription_id: absentId(),
  test_clock_id: absentId(),
  seated_id: absentId(),
  seat_id: absentId(),
  grant_id: absentId(),
  file_id: absentId(),
  license_key_id: absentId(),
  activation_id: absentId(),
  license_key: absentId(),
  link_id: absentId(),
  link_secret: absentId(),
  wallet_id: absentId(),
  free_plan_id: absentId(),
  usage_event_id: absentId(),
  customer_meter_id: absentId(),
  credited_meter_id: absentId(),
  reservation_id: absentId(),
  event_type_id: absentId(),
  dashboard_id: absentId(),
})

/** Returns the names of the ids in `Target` that the request of a policy uses. */
const namedBy = (row: Pick<Policy, 'ask'>): ReadonlySet<string> => {
  const named = new Set<string>()
  row.ask(
    new Proxy(absent(), {
      get: (target, name: keyof Target) => {
        named.add(name)
        return target[name]
      },
    }),
  )
  return named
}

export type SandboxSeed = readonly [names: readonly (keyof Target)[], make: () => Promise<Partial<Target>>]

/** Creates all resources, or only those that the request of the policy names. Saves time for operations that need few. */
export const seedFrom = async (furnishings: readonly SandboxSeed[], given: Partial<Target>, row?: Pick<Policy, 'ask'>): Promise<Target> => {
  const named = row && namedBy(row)
  const target = { ...absent(), ...given }
  for (const [names, make] of furnishings) if (!named || names.some((name) => named.has(name))) Object.assign(target, await make())
  return target
}

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
