import { seconds } from '../../../platform/clock.ts'
import type { Claimed, Outcome } from '../records/deliveries.sql.ts'

/** Maximum number of concurrent requests of one worker to one endpoint. An endpoint that does not respond blocks only this number of requests. */
export const perEndpoint = 16
/** The part of a worker's concurrent requests that one organization may use, so that others are never delayed by it. */
const shareOfOrganization = 1 / 4
/** Number of consecutive failed or slow requests after which an endpoint gets at most `whileFailing` concurrent requests, until a request succeeds in time. */
const failsInARow = 8
const whileFailing = 2
/** Milliseconds from which a request counts as slow. An endpoint that is always slow blocks its requests like one that fails. */
const slowAfter = 2 * seconds

/** Counts the running requests of one worker, and holds claimed deliveries that must wait until their endpoint or organization has capacity. */
export const openSendingSlots = (inAll: number) => {
  const perOrganization = Math.max(1, Math.floor(inAll * shareOfOrganization))
  /** Number of running requests, and of deliveries in hand (running or waiting in memory), by endpoint and by organization. */
  const running = new Map<string, number>()
  const inHand = new Map<string, number>()
  /** Claimed deliveries that wait in memory, by organization and endpoint. */
  const waiting = new Map<string, Map<string, Claimed[]>>()
  /** Number of consecutive failed or slow requests, by endpoint. */
  const failures = new Map<string, number>()
  /** Organizations with more due deliveries than the last claim took. The next claim follows when this number is in hand. */
  const refillAt = new Map<string, number>()

  const add = (counts: Map<string, number>, { organization_id, endpoint_id }: Claimed, change: 1 | -1) => {
    for (const id of [organization_id, endpoint_id]) {
      const count = (counts.get(id) ?? 0) + change
      if (count > 0) counts.set(id, count)
      else counts.delete(id)
    }
  }
  const roomOf = (endpoint_id: string) => ((failures.get(endpoint_id) ?? 0) >= failsInARow ? whileFailing : perEndpoint)
  const runningOf = (id: string) => running.get(id) ?? 0
  const hasRoom = (organization_id: string, endpoint_id: string) => runningOf(endpoint_id) < roomOf(endpoint_id) && runningOf(organization_id) < perOrganization

  return {
    /** Takes claimed deliveries in hand. They wait for `next`. */
    take: (claimed: readonly Claimed[]): void => {
      for (const one of claimed) {
        add(inHand, one, 1)
        const lists = waiting.get(one.organization_id) ?? new Map<string, Claimed[]>()
        const list = lists.get(one.endpoint_id)
        if (list) list.push(one)
        else waiting.set(one.organization_id, lists.set(one.endpoint_id, [one]))
      }
      for (const own of Map.groupBy(claimed, ({ endpoint_id }) => endpoint_id).values()) {
        const { organization_id, room } = own[0]!
        if (own.length >= room) refillAt.set(organization_id, Math.floor((inHand.get(organization_id) ?? 0) / 2))
      }
    },
    /** Frees the slot of a delivery, and counts its result for the limit of its endpoint. */
    free: (claimed: Claimed, outcome?: Outcome): void => {
      const { endpoint_id } = claimed
      if (outcome?.attempt) {
        if (outcome.status === 'delivered' && outcome.attempt.duration_ms < slowAfter) failures.delete(endpoint_id)
        else failures.set(endpoint_id, (failures.get(endpoint_id) ?? 0) + 1)
      }
      add(running, claimed, -1)
      add(inHand, claimed, -1)
    },
    /**
     * Returns the next waiting delivery of the organization that may start, with a slot. It goes to the endpoint with the
     * fewest running requests. So a slow endpoint holds no more slots than a fast one while both have deliveries.
     * Endpoints with equally many take turns.
     */
    next: (organization_id: string): Claimed | undefined => {
      const lists = waiting.get(organization_id)
      if (!lists) return undefined
      let chosen: { readonly endpoint_id: string; readonly list: Claimed[] } | undefined
      for (const [endpoint_id, list] of lists)
        if (hasRoom(organization_id, endpoint_id) && (!chosen || runningOf(endpoint_id) < runningOf(chosen.endpoint_id))) chosen = { endpoint_id, list }
      if (!chosen) return undefined
      const { endpoint_id, list } = chosen
      const first = list.shift()!
      lists.delete(endpoint_id)
      if (list.length > 0) lists.set(endpoint_id, list)
      if (lists.size === 0) waiting.delete(organization_id)
      add(running, first, 1)
      return first
    },
    /** Drops the waiting deliveries. Other workers claim them when their leases have expired. */
    dropWaiting: (): void => waiting.clear(),
    /**
     * True if it is time to claim more deliveries of the organization: half of the claimed ones are done, and the last
     * claim left some. Returns true once per claim.
     */
    wantsMore: (organization_id: string): boolean => {
      const at = refillAt.get(organization_id)
      return at !== undefined && (inHand.get(organization_id) ?? 0) <= at && refillAt.delete(organization_id)
    },
    /** The limits of the next claim, and the deliveries in hand that count towards them. */
    limits: () => {
      if (failures.size > 10_000) failures.clear()
      const taken = new Map(inHand)
      // Counts a failing endpoint as mostly at capacity, so that few of its deliveries are claimed.
      for (const id of failures.keys()) taken.set(id, (taken.get(id) ?? 0) + 2 * (perEndpoint - roomOf(id)))
      return { taken, per_endpoint: 2 * perEndpoint, per_organization: 2 * perOrganization }
    },
  }
}
