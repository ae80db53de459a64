import { createHash } from 'node:crypto'
import { findLivingOrganization } from '../../src/modules/organizations/index.ts'
import { importLegacy, type BundleLine, type Imported } from '../../src/modules/migration/index.ts'
import type { World } from './world.ts'

type LineOf<T extends BundleLine['type']> = Extract<BundleLine, { type: T }>
type Container = { readonly subscription_id: string } | { readonly order_id: string }

/** An organization from before the member migration, as lines to import, with the files that they reference. */
export interface Bundle {
  readonly slug: string
  readonly lines: readonly BundleLine[]
  /** Files that the lines reference. Their rows are inserted before the import. */
  readonly files: readonly { readonly id: string; readonly name: string }[]
}

/** Creation times start here and grow by one minute per line, so that the same seed builds the same bundle. */
const beginning = Date.parse('2025-01-01T00:00:00Z')
/** A billing period so long that no renewal falls due during a test. */
const period = { current_period_start: '2025-01-01T00:00:00.000Z', current_period_end: '2125-01-01T00:00:00.000Z' }

/** Returns a pseudorandom number generator. The same seed gives the same numbers. */
export const seeded = (seed: number): ((below: number) => number) => {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

const uuidOf = (text: string): string => {
  const bytes = createHash('sha256').update(text).digest().subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

interface SeatWish {
  readonly status?: 'pending' | 'claimed' | 'revoked'
  /** The customer that holds the seat, or null. */
  readonly holder: string | null
  /** The seat's address, if it differs from the holder's. A seat without holder and address was never assigned. */
  readonly email?: string
  /** True if the holder already has another seat of the same purchase. Only the first seat grants the benefits. */
  readonly again?: boolean
}

/** Opens a writer of one bundle, with functions that add products, buyers, seats and grants. */
const openScript = (slug: string, seed: string) => {
  const buckets = Object.fromEntries(
    ['benefit', 'product', 'customer', 'subscription', 'order', 'seat', 'grant', 'license_key', 'download'].map((type) => [type, []]),
  ) as unknown as { [T in Exclude<BundleLine['type'], 'organization'>]: LineOf<T>[] }
  let serial = 0
  const stamped = (what: string) => {
    serial++
    return { id: uuidOf(`${seed} ${what} ${serial}`), created_at: at(serial) }
  }
  const at = (minute: number) => new Date(beginning + minute * 60_000).toISOString()

  const file = { id: uuidOf(`${seed} file`), name: 'manual.pdf' }
  const benefit = (benefit_type: LineOf<'benefit'>['benefit_type'], description: string, properties: Record<string, unknown> = {}) => {
    const line = { type: 'benefit', ...stamped('benefit'), benefit_type, description, properties } as const
    buckets.benefit.push(line)
    return line.id
  }
  const benefits = {
    keys: benefit('license_keys', 'Desktop app', { prefix: 'GOLD', activations: { limit: 3, enable_customer_admin: true } }),
    chat: benefit('custom', 'Chat with us', { note: 'Come in.' }),
    files: benefit('downloadables', 'The manual', { files: [file.id] }),
    flag: benefit('feature_flag', 'Early features'),
  }
  const kindOf = new Map(Object.entries(benefits).map(([kind, id]) => [id, kind]))

  const product = (name: string, wish: { seats: boolean; again: boolean; gives: readonly string[] }) => {
    const { id, created_at } = stamped('product')
    const price = { id: uuidOf(`${seed} price ${id}`), price_currency: 'usd' } as const
    buckets.product.push({
      type: 'product',
      id,
      created_at,
      name,
      ...(wish.again ? { recurring_interval: 'year', recurring_interval_count: 100 } : {}),
      prices: [
        wish.seats
          ? { ...price, amount_type: 'seat_based', seat_tiers: { tiers: [{ min_seats: 1, max_seats: 1000, price_per_seat: 1000 }] } }
          : { ...price, amount_type: 'fixed', price_amount: 1000 },
      ],
      benefits: [...wish.gives],
    })
    return { id, ...wish }
  }
  const { keys, chat, files, flag } = benefits
  const products = {
    team: product('Team plan', { seats: true, again: true, gives: [keys, chat, files] }),
    lounge: product('Lounge', { seats: true, again: true, gives: [chat, files] }),
    workshop: product('Workshop', { seats: true, again: false, gives: [keys, chat, files] }),
    single: product('Single copy', { seats: false, again: false, gives: [keys] }),
    solo: product('Solo plan', { seats: false, again: true, gives: [chat] }),
  }
  type ProductName = keyof typeof products
  const sold = new Map<string, { product: ProductName; buyer: string; line: LineOf<'subscription'> | LineOf<'order'> }>()
  const taken = new Map<string, number>()
  const emails = new Map<string, string>()

  const customer = (email: string, more: Partial<LineOf<'customer'>> = {}): string => {
    const line: LineOf<'customer'> = { type: 'customer', ...stamped('customer'), email, name: `Name of ${email.split('@')[0]}`, ...more }
    buckets.customer.push(line)
    emails.set(line.id, email)
    return line.id
  }

  /** Adds a purchase. Its seat count grows with the seats that are assigned later. */
  const buy = (buyer: string, name: ProductName): Container => {
    const wanted = products[name]
    const common = { customer_id: buyer, product_id: wanted.id, currency: 'usd', ...(wanted.seats ? { seats: 1 } : {}) } as const
    if (wanted.again) {
      const line: LineOf<'subscription'> = { type: 'subscription', ...stamped('subscription'), ...common, amount: 1000, ...period }
      buckets.subscription.push(line)
      sold.set(line.id, { product: name, buyer, line })
      if (!wanted.seats) grantAll({ subscription_id: line.id }, buyer, null, 'granted')
      return { subscription_id: line.id }
    }
    const line: LineOf<'order'> = { type: 'order', ...stamped('order'), ...common, net_amount: 1000 }
    buckets.order.push(line)
    sold.set(line.id, { product: name, buyer, line })
    if (!wanted.seats) grantAll({ order_id: line.id }, buyer, null, 'granted')
    return { order_id: line.id }
  }
  const boughtBy = (container: Container) => sold.get('subscription_id' in container ? container.subscription_id : container.order_id)!

  const grant = (of: Container | null, benefit_id: string, customer_id: string, seat_id: string | null, became: 'granted' | 'revoked'): void => {
    const { id, created_at } = stamped('grant')
    const moment = became === 'granted' ? { granted_at: created_at } : { revoked_at: created_at }
    buckets.grant.push({ type: 'grant', id, created_at, benefit_id, customer_id, ...of, ...(seat_id === null ? {} : { seat_id }), ...moment })
    const kind = kindOf.get(benefit_id)
    if (kind === 'keys') {
      const hex = createHash('sha256').update(`${seed} key ${id}`).digest('hex').toUpperCase()
      const key = `GOLD-A${hex.slice(0, 7)}-${hex.slice(8, 12)}-4${hex.slice(12, 15)}-8${hex.slice(15, 18)}-${hex.slice(18, 30)}`
      buckets.license_key.push({ type: 'license_key', ...stamped('license_key'), grant_id: id, key, status: became, usage: serial % 5 })
    }
    if (kind === 'files') buckets.download.push({ type: 'download', ...stamped('download'), grant_id: id, file_id: file.id, downloads: serial % 3 })
  }
  const grantAll = (of: Container, customer_id: string, seat_id: string | null, became: 'granted' | 'revoked') => {
    for (const benefit_id of products[boughtBy(of).product].gives) grant(of, benefit_id, customer_id, seat_id, became)
  }

  const seat = (of: Container, { status = 'claimed', holder, email, again = false }: SeatWish): string => {
    const { line } = boughtBy(of)
    const { id, created_at } = stamped('seat')
    const address = email ?? (holder === null ? undefined : emails.get(holder))
    buckets.seat.push({
      type: 'seat',
      id,
      created_at,
      ...of,
      status,
      ...(holder === null ? {} : { customer_id: holder }),
      ...(address === undefined ? {} : { email: address }),
      ...(status === 'pending' ? { invitation_expires_at: period.current_period_end } : { claimed_at: created_at }),
      ...(status === 'revoked' ? { revoked_at: created_at } : {}),
      metadata: { place: serial },
    })
    // The purchase has one more seat than are assigned, so that one seat is free.
    if (status !== 'revoked') line.seats = (taken.get(line.id) ?? 1) + 1
    if (status !== 'revoked') taken.set(line.id, line.seats!)
    if (status !== 'pending' && holder !== null && !again) grantAll(of, holder, id, status === 'claimed' ? 'granted' : 'revoked')
    return id
  }

  return {
    benefits,
    counts: () => ({
      seats: buckets.seat.length,
      grants: buckets.grant.length,
      keys: buckets.license_key.length,
      buyers: new Set([...sold.values()].flatMap(({ buyer, product: name }) => (products[name].seats ? [buyer] : []))).size,
    }),
    customers: () => buckets.customer,
    holds: (id: string) => buckets.seat.some(({ customer_id }) => customer_id === id),
    customer,
    buy,
    seat,
    /** Adds a manual grant by the seller. Each customer gets each benefit at most once. */
    give: (customer_id: string, benefit_id = flag) => grant(null, benefit_id, customer_id, null, 'granted'),
    write: (): Bundle => ({
      slug,
      files: [file],
      lines: [{ type: 'organization', name: `Organization ${slug}`, slug }, ...Object.values(buckets).flat()],
    }),
  }
}

export interface GoldenWish {
  readonly seed?: number
  readonly slug?: string
  /**
   * Scale of the bundle. With 1 it has 40 buyers, 200 seats, 600 grants and 150 license keys. Smaller bundles still
   * contain every difficult case.
   */
  readonly size?: number
  /** Adds a pending seat without holder and address. The migration cannot know its recipient. */
  readonly nobody?: boolean
}

/** Builds a bundle with every difficult case of legacy data: duplicate people, mixed letter case, deleted and returned customers. */
export const golden = ({ seed = 1, slug = `golden-${seed}`, size = 1, nobody = false }: GoldenWish = {}) => {
  const draw = seeded(seed)
  const script = openScript(slug, `golden ${seed} ${slug}`)
  const { customer, buy, seat, give } = script
  const wanted = {
    buyers: Math.max(9, Math.round(40 * size)),
    seats: Math.max(34, Math.round(200 * size)),
    grants: Math.max(90, Math.round(600 * size)),
    keys: Math.max(30, Math.round(150 * size)),
  }

  const buyers = Array.from({ length: 8 }, (_, at) => customer(`Buyer${at}@Golden.test`, { external_id: `buyer-${at}`, metadata: { at } }))
  const teams = buyers.map((buyer) => buy(buyer, 'team'))
  const workshops = [0, 1].map(() => buy(buyers[5]!, 'workshop'))

  // A seat and an invitation of the same buyer use the holder's address in another letter case.
  const mixed = customer('Mixed.Case@Golden.test', { external_id: 'mixed' })
  seat(teams[0]!, { holder: mixed, email: 'mixed.case@golden.TEST' })
  const second = buy(buyers[0]!, 'lounge')
  seat(second, { status: 'pending', holder: null, email: 'MIXED.CASE@GOLDEN.TEST' })

  // A buyer who holds a seat of another buyer, and a buyer who holds a seat of their own purchase.
  seat(teams[0]!, { holder: buyers[1]! })
  seat(teams[2]!, { holder: buyers[2]! })

  // Seat holders who are also buyers or grantees. One has an order with the same license key benefit, one a subscription, one a grant.
  const ordering = customer('ordering@golden.test')
  seat(teams[1]!, { holder: ordering })
  buy(ordering, 'single')
  const subscribing = customer('subscribing@golden.test')
  seat(teams[1]!, { holder: subscribing })
  buy(subscribing, 'solo')
  const gifted = customer('gifted@golden.test')
  seat(teams[1]!, { holder: gifted })
  give(gifted)

  // A person who holds seats of four buyers, and seats of two purchases of the same buyer.
  const everywhere = customer('everywhere@golden.test', { external_id: 'everywhere', name: 'Über All' })
  for (const team of teams.slice(0, 4)) seat(team, { holder: everywhere })
  seat(second, { holder: everywhere })

  // Invitations: to a customer, to an unknown address, and without an address.
  const waiting = customer('waiting@golden.test')
  seat(teams[3]!, { status: 'pending', holder: waiting })
  seat(teams[3]!, { status: 'pending', holder: null, email: 'unknown@golden.test' })
  if (nobody) seat(teams[3]!, { status: 'pending', holder: null })

  // Revoked seats of three people: one has no other seat, one has another seat, and one was deleted and the address reused.
  const former = customer('former@golden.test')
  seat(teams[4]!, { status: 'revoked', holder: former })
  seat(second, { status: 'revoked', holder: mixed })
  const gone = customer('returned@golden.test', { deleted_at: new Date(beginning + 1000).toISOString(), external_id: 'returned' })
  seat(teams[4]!, { status: 'revoked', holder: gone })
  const returned = customer('Returned@golden.test', { external_id: 'returned' })
  seat(teams[4]!, { holder: returned })

  // One person holds two seats of the same subscription. Another person holds a seat in each of two orders.
  const twice = customer('twice@golden.test')
  seat(teams[4]!, { holder: twice })
  seat(teams[4]!, { holder: twice, again: true })
  const again = customer('again@golden.test')
  for (const workshop of workshops) seat(workshop, { holder: again })
  seat(workshops[0]!, { holder: buyers[5]! })

  // A holder whose address changed after the assignment, and a holder whose external id a member of the buyer has.
  const moved = customer('moved@golden.test')
  seat(teams[6]!, { holder: moved, email: 'before.moving@golden.test' })
  const clashing = customer('clashing@golden.test', { external_id: 'clash' })
  seat(teams[6]!, { holder: clashing })

  // Addresses with letters that have more than one Unicode form, or a special lower case.
  const letters = ['Élodie@golden.test', 'E\u0301lodie@golden.test', 'İlknur@golden.test', 'straße@golden.test', '用户@golden.test', 'ΣΊΣΥΦΟΣ@golden.test']
  for (const email of letters) seat(teams[7]!, { holder: customer(email) })
  seat(second, { holder: customer('ÅNGSTRÖM@golden.test'), email: 'ångström@golden.test' })

  // A customer without purchases, and a customer whose purchase has no seats.
  customer('nothing@golden.test')
  buy(customer('alone@golden.test'), 'single')

  // Adds ordinary buyers and seats until the wanted counts are reached.
  while (script.counts().buyers < wanted.buyers) {
    const buyer = customer(`more${script.counts().buyers}@golden.test`)
    const { seats, keys } = script.counts()
    const share = Math.ceil((wanted.seats - seats) / Math.max(1, wanted.buyers - script.counts().buyers))
    const team = buy(buyer, keys + share < wanted.keys ? 'team' : 'lounge')
    for (let at = 0; at < share; at++) {
      const of = draw(10)
      const holder = of === 0 ? script.customers()[draw(script.customers().length)]! : undefined
      const fresh = !holder || holder.deleted_at || holder.id === buyer
      const status = of === 1 ? 'revoked' : of === 2 ? 'pending' : 'claimed'
      if (fresh)
        seat(team, {
          status,
          holder: customer(`Person.${script.counts().seats}@golden.test`, draw(3) === 0 ? { external_id: `person-${script.counts().seats}` } : {}),
        })
      else seat(buy(buyer, 'lounge'), { holder: holder.id })
    }
  }
  while (script.counts().keys < wanted.keys) buy(customer(`reader${script.counts().keys}@golden.test`), 'single')
  // Adds manual grants, first to customers without a seat. The switch keeps a seat holder with a manual grant as a
  // customer. It must also find seat holders that it deletes.
  const ungiven = Map.groupBy(
    script.customers().filter(({ id, deleted_at }) => id !== gifted && !deleted_at),
    ({ id }) => script.holds(id),
  )
  for (const group of [ungiven.get(false) ?? [], ungiven.get(true) ?? []])
    while (script.counts().grants < wanted.grants && group.length > 0) give(group.splice(draw(group.length), 1)[0]!.id)

  return {
    ...script.write(),
    counts: script.counts(),
    benefits: script.benefits,
    people: { buyers, mixed, ordering, subscribing, gifted, everywhere, waiting, former, gone, returned, twice, again, moved, clashing },
  }
}

/**
 * Builds a small random organization from numbers: 6 people, up to 4 purchases and up to 8 seats. Any list of numbers
 * is valid. Shorter lists and smaller numbers give simpler organizations, so that a property test can shrink failures.
 */
export const randomBundle = (numbers: readonly number[], slug: string): Bundle => {
  let at = 0
  const draw = (below: number): number => (numbers.length === 0 ? 0 : Math.abs(numbers[at++ % numbers.length]! + Math.floor(at / numbers.length)) % below)
  const script = openScript(slug, `random ${slug}`)
  const people = Array.from({ length: 6 }, (_, n) =>
    script.customer(`${draw(2) === 0 ? 'p' : 'P'}erson${n}@random.test`, draw(2) === 0 ? {} : { external_id: `person-${n}` }),
  )
  const pools = Array.from({ length: 1 + draw(4) }, (_, n) => ({
    container: script.buy(people[n]!, (['team', 'lounge', 'workshop'] as const)[draw(3)]!),
    holders: new Set<string>(),
  }))
  const seats = Array.from({ length: draw(9) }, () => ({
    pool: pools[draw(pools.length)]!,
    status: (['claimed', 'claimed', 'pending', 'revoked'] as const)[draw(4)]!,
    holder: people[draw(6)]!,
    shouted: draw(3) === 0,
    nameless: draw(2) === 0,
  }))
  // Adds revoked seats last, so that a person with an active seat gets the benefits from the active one.
  for (const { pool, status, holder, shouted, nameless } of seats.toSorted((a, b) => Number(a.status === 'revoked') - Number(b.status === 'revoked'))) {
    const email = shouted ? { email: `PERSON${people.indexOf(holder)}@RANDOM.test` } : {}
    if (status === 'pending')
      script.seat(pool.container, nameless ? { status, holder: null, email: `PERSON${draw(8)}@random.test` } : { status, holder, ...email })
    else {
      script.seat(pool.container, { status, holder, again: pool.holders.has(holder), ...email })
      pool.holders.add(holder)
    }
  }
  for (const person of people) {
    const own = draw(6)
    if (own === 1) script.buy(person, 'single')
    if (own === 2) script.buy(person, 'solo')
    if (own === 3) script.give(person)
  }
  return script.write()
}

/** Imports a bundle as the operator's import command would. Throws if the import refuses a line. */
export const importBundle = async (world: World, bundle: Bundle) => {
  const [opening, ...rest] = bundle.lines.map((line) => JSON.stringify(line))
  const take = async (lines: readonly string[]): Promise<Imported> => {
    const imported = await importLegacy(world, bundle.slug, lines)
    if (imported.refused.length > 0) throw new Error(`refused: ${imported.refused.map(({ line, says }) => `${line}: ${says}`).join('\n')}`)
    return imported
  }
  await take([opening!])
  const row = (await findLivingOrganization(world.api.postgres.db, { slug: bundle.slug }))!
  await world.database.owner(async (owner) => {
    for (const { id, name } of bundle.files)
      await owner.query(
        `insert into files (organization_id, id, created_at, service, name, path, mime_type, size, state) values ($1, $2, $3, 'downloadable', $4, $5, 'application/pdf', 1000, 'ready')
         on conflict do nothing`,
        [row.id, id, new Date(beginning), name, `downloadable/${row.id}/${id}/${name}`],
      )
  })
  const imported = await take(rest)
  const shop = await world.shop(await world.adopt(row))
  return { ...shop, imported }
}
