import { costsOf, operations, rateLimits, type Cost, type Operation } from '@bursar/contract'
import type { World } from '../../harness/world.ts'
import { costlyPolicy } from '../costs.ts'
import { policy, type Policy, type Target } from '../matrix/policy.ts'
import { openSeeds } from '../matrix/seeds.ts'
import { bearer } from '../matrix/targets.ts'
import { multiplyBuyers } from './buyers.ts'
import type { Shot } from './requests.ts'

/** The credential that an attacker uses for an operation. Each has its own rate limit. */
const credentials = ['token', 'session', 'portal', 'anonymous'] as const
type Credential = (typeof credentials)[number]

/** A sequence of requests that share one rate limit. They are sent at this rate, one after the other and then from the start. */
export interface Volley {
  readonly name: string
  readonly per_second: number
  /** Requests that are sent at once at the beginning. */
  readonly burst: number
  readonly shots: readonly Shot[]
}

/** The longest time that a long poll waits, in seconds. */
const longestPoll = 30

/** How long and how fast an attacker sends. */
export interface Pace {
  readonly seconds: number
  /** The share of the allowed rate at which the attacker sends: less than 1 on a slow machine. */
  readonly share: number
  /**
   * True: each credential sends at the rate of its own limit. False: all credentials together send at the rate of one
   * limit, because attacker, server and bystander share two cores.
   */
  readonly everyLimit: boolean
}

/** The address of the attacker. A trusted proxy forwards it, so that its rate limits are not those of the bystander. */
export const attackersNetwork = { 'x-forwarded-for': '198.51.100.66' }

const credentialOf = ({ access }: Operation): Credential | undefined =>
  ({ merchant: 'token', session: 'session', portal: 'portal', open: 'anonymous', visitor: 'anonymous', protocol: undefined } as const)[access.kind]

/** Returns the requests of an operation that succeed. A refused request costs others nothing. */
const successesOf = ({ id }: Operation): Policy[] => {
  const row = policy[id]!
  const costly = costlyPolicy(id, row)
  return [...(costly ? [costly] : []), ...(typeof row.granted === 'number' && row.granted < 400 ? [row] : [])]
}

/** Lists the operations of the catalogue that declare this cost, and that a credential of the attacker can call successfully. */
export const operationsOf = (cost: Cost): Operation[] =>
  operations.filter((operation) => costsOf(operation).includes(cost) && credentialOf(operation) !== undefined && successesOf(operation).length > 0)

/** Opens an attacker: an organization of its own with every kind of credential, and many buyers of one product. */
export const openAttacker = async (world: World, buyers: number) => {
  const seeds = openSeeds(world)
  const person = await world.person()
  const organization = await world.organization({ owner: person.id })
  await world.database.owner((owner) =>
    owner.query(
      `update organizations set customer_portal_settings = jsonb_set(customer_portal_settings, '{customer}', '{"allow_email_change": true}') where id = $1`,
      [organization.id],
    ),
  )
  const { portalOf, ofCrew } = await seeds.openCrew(organization.id)
  const headers: Record<Credential, Record<string, string>> = {
    token: { ...attackersNetwork, ...bearer((await organization.token()).secret.reveal()) },
    session: { ...attackersNetwork, cookie: await person.cookie(), origin: world.config.public_url.origin, 'bursar-csrf': '1' },
    portal: { ...attackersNetwork, ...(await portalOf('owner')) },
    anonymous: attackersNetwork,
  }
  // Every change of this product or its benefit affects all buyers.
  const popular = buyers === 0 ? {} : await multiplyBuyers(world, seeds, organization.id, buyers)

  /** Creates the resources of a request, and builds it. */
  const aim = async (operation: Operation, row: Policy, credential: Credential): Promise<Shot> => {
    const made = credential === 'portal' ? await ofCrew(row) : await seeds.furnish(organization.id, person.id, person.id, row)
    const amplified: Target = operation.method === 'DELETE' ? made : { ...made, ...popular }
    const { path, ...rest } = row.ask(row.implied && credential === 'token' ? { ...amplified, organization_id: '' } : amplified)
    return { method: operation.method, path: waiting(operation, path), headers: headers[credential], ...rest }
  }

  return {
    id: organization.id,
    slug: organization.slug,
    headers,
    /**
     * Builds the requests of all operations with this cost, grouped by the rate limit that they are charged to. Each group
     * is sent at a share of the rate that its limit allows.
     */
    volleys: async (cost: Cost, { seconds, share, everyLimit }: Pace): Promise<Volley[]> => {
      const groups = Map.groupBy(operationsOf(cost), (operation) => `${credentialOf(operation)} ${budgetOf(operation)}`)
      const volleys: Volley[] = []
      for (const [name, group] of groups) {
        const [{ limit, seconds: window }] = rateLimits[budgetOf(group[0]!)].production as [{ limit: number; seconds: number }]
        // Slow limits allow a burst, so the first requests are sent faster than the limit allows in the long run.
        const allowed = Math.max(limit / window, 0.5) * share
        const same = [...groups.keys()].filter((other) => other.split(' ')[1] === name.split(' ')[1]).length
        const per_second = everyLimit ? allowed : allowed / same
        const shots: Shot[] = []
        for (let at = 0; at < per_second * seconds || at < group.length; at++) {
          const operation = group[at % group.length]!
          // Alternates between the requests of an operation, so that each one changes something again.
          const rows = successesOf(operation)
          shots.push(await aim(operation, rows[Math.floor(at / group.length) % rows.length]!, credentialOf(operation)!))
        }
        // An attacker that polls all the time has this many polls open.
        const burst = cost === 'polls' ? Math.round(per_second * longestPoll) : 0
        volleys.push({ name, per_second, burst, shots })
      }
      return volleys
    },
  }
}
export type Attacker = Awaited<ReturnType<typeof openAttacker>>

/** The rate limit that the requests of a credential count for. */
const budgetOf = (operation: Operation) => operation.budget ?? (credentialOf(operation) === 'session' ? 'dashboard' : 'api')

/** Makes a long poll wait as long as it can: it asks for events that do not exist yet. */
const waiting = ({ query, media }: Operation, path: string): string =>
  media === 'text/event-stream'
    ? path.replace('wait=0', `wait=${longestPoll}`)
    : query !== undefined && 'shape' in query && 'wait' in (query.shape as object)
      ? `${path}${path.includes('?') ? '&' : '?'}wait=${longestPoll}&after=1000000000`
      : path
