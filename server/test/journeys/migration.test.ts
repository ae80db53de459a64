import {
  assignPortalSeat,
  assignSeat,
  claimSeat,
  createCustomerSession,
  createWebhookEndpoint,
  getCustomer,
  getMemberMigration,
  getPortalUser,
  getSeat,
  listBenefitGrants,
  listCustomerMembers,
  listCustomers,
  listLicenseKeys,
  listPortalBenefitGrants,
  listSeats,
  revokePortalSeat,
  revokeSeat,
  startMemberMigration,
  switchMemberMigration,
  undoMemberMigration,
  type Operation,
  type WebhookEventType,
} from '@bursar/contract'
import type { Client, Input } from '@bursar/contract/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { golden, importBundle, type Bundle } from '../harness/golden.ts'
import { openSink, type Sink } from '../harness/sink.ts'
import { tokenIn } from '../harness/teams.ts'
import { fairStopwatch } from '../harness/fair.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

let world: World
let sink: Sink
beforeAll(async () => {
  sink = await openSink()
  world = await openWorld({ worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true', BURSAR_MEMBER_MIGRATION_BATCH: '60' } })
})
afterAll(async () => {
  await world.close()
  sink.close()
})

/** A delivered event. */
interface Heard {
  readonly sequence: number
  readonly type: string
  readonly data: {
    readonly id: string
    readonly customer_id?: string
    readonly customer?: { readonly id: string }
    readonly member?: { readonly id: string } | null
  }
}

/** Returns the events that a path has received so far, without duplicates, in sequence order. */
const heardAt = (path: string): Heard[] => {
  const once = new Map(sink.of(path).map(({ headers, body }) => [Number(headers['bursar-sequence']), JSON.parse(body) as Omit<Heard, 'sequence'>]))
  return [...once].map(([sequence, event]) => ({ sequence, ...event })).toSorted((a, b) => a.sequence - b.sequence)
}

const breathe = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))
const reaches = (api: Client, wanted: 'phase1' | 'phase2') =>
  eventually(`the migration is in ${wanted} and no step is running`, async () => {
    const { state, work, problems } = await api.call(getMemberMigration, {})
    if (problems.some(({ blocks }) => blocks)) throw new Error(JSON.stringify(problems))
    return state === wanted && work === null
  })

/** The phase that an answer shows. 1: the customer of a seat is its holder. 2: it is the buyer. Null: the answer is the same in both. */
type View = 1 | 2 | 'mixed' | null
const viewOf = (views: readonly View[]): View => {
  const seen = new Set(views.filter((view) => view !== null))
  return seen.size === 0 ? null : seen.size === 1 ? [...seen][0]! : 'mixed'
}
interface Held {
  readonly holder: string
  readonly buyer: string
}
const viewOfHeld = ({ holder, buyer }: Held, shown: string | null | undefined): View => (shown === holder ? 1 : shown === buyer ? 2 : 'mixed')

/** Reads seat holders, buyers and grants from the imported lines. */
const readBundle = ({ lines }: Bundle) => {
  const buyers = new Map(lines.flatMap((line) => (line.type === 'subscription' || line.type === 'order' ? [[line.id, line.customer_id] as const] : [])))
  const own = new Set([
    ...buyers.values(),
    ...lines.flatMap((line) => (line.type === 'grant' && !line.subscription_id && !line.order_id ? [line.customer_id] : [])),
  ])
  const held = (kind: 'seat' | 'grant') =>
    lines.flatMap((line) => {
      if (line.type !== kind || !line.customer_id) return []
      const { id, customer_id: holder, subscription_id = null } = line
      const buyer = buyers.get((line.subscription_id ?? line.order_id)!)
      const live = line.type === 'seat' ? line.status !== 'revoked' : !!line.granted_at
      return buyer === undefined || buyer === holder ? [] : [{ id, holder, buyer, subscription_id, live }]
    })
  const [seats, grants] = [held('seat'), held('grant')]
  const keys = new Set(lines.flatMap((line) => (line.type === 'license_key' ? [line.grant_id] : [])))
  return {
    seats,
    grants,
    keyHolders: new Set(grants.filter(({ id }) => keys.has(id)).map(({ holder }) => holder)),
    /** Seat holders without purchases or grants of their own. The switch to phase 2 deletes these customers. */
    pure: [...new Set(seats.filter(({ live, holder }) => live && !own.has(holder)).map(({ holder }) => holder))],
    pools: lines.flatMap((line) => (line.type === 'subscription' && line.seats ? [{ subscription_id: line.id, buyer: line.customer_id }] : [])),
  }
}

test('serves readers and writers through both phases: each answer shows exactly one phase, and all answers change at the switch [S3-04] [S3-06] [S3-11] [S6-08]', async () => {
  const bundle = golden({ size: 0.3, slug: 'online' })
  const { organization, api } = await importBundle(world, bundle)
  const { seats, grants, pure, pools, keyHolders } = readBundle(bundle)
  expect(pure.length).toBeGreaterThan(8)
  const kinds: WebhookEventType[] = [
    ...(['customer_seat.assigned', 'customer_seat.claimed', 'customer_seat.revoked', 'benefit_grant.created', 'benefit_grant.revoked'] as const),
    ...(['benefit_grant.updated', 'member.created', 'customer.created', 'customer.deleted', 'organization.updated'] as const),
  ]
  await api.call(createWebhookEndpoint, { body: { url: sink.url('/online'), format: 'raw', events: kinds, migration_events: true } })

  const wrong: string[] = []
  const answers = new Map<string, number>()
  const ask = async <O extends Operation>(client: Client, operation: O, input: Input<O>, fine: readonly number[] = [200, 201]) => {
    const reply = await client.send(operation, input)
    const said = `${operation.id} ${reply.status}`
    answers.set(said, (answers.get(said) ?? 0) + 1)
    if (!fine.includes(reply.status)) wrong.push(`${said} ${JSON.stringify(reply.body)}`)
    return reply
  }

  // Times at which each switch was requested and answered. Between them an answer may show either phase. Otherwise only one.
  const turns: { readonly asked: number; answered: number; readonly to: 1 | 2 }[] = []
  const possible = (began: number, ended: number) =>
    [1 as const, ...turns.map(({ to }) => to)].filter((_, at) => (turns[at - 1]?.asked ?? 0) <= ended && (turns[at]?.answered ?? Infinity) >= began)
  let prepared = Infinity
  const pace = { hurry: false, stopping: false }
  const seen = new Map<string, View[]>()
  /** Reads once, and compares the view with the phases that are possible at that time. */
  const look = async (who: string, at: () => Promise<View>) => {
    const began = performance.now()
    const view = await at()
    const can = possible(began, performance.now())
    if (view === null) return null
    if (view === 'mixed' || !can.includes(view)) wrong.push(`${who} saw ${view} where it is ${can.join(' or ')}`)
    const before = seen.get(who) ?? []
    if (before.at(-1) !== view) seen.set(who, [...before, view])
    return view
  }
  const running: Promise<void>[] = []
  const run = (who: string, turn: (round: number) => Promise<unknown>) => {
    const go = async () => {
      for (let round = 0; !pace.stopping; round++) {
        await turn(round)
        await breathe(50)
      }
    }
    running.push(go().catch((error: unknown) => void wrong.push(`${who}: ${String(error)}`)))
  }
  const watch = (who: string, at: (round: number) => Promise<View>) => run(who, (round) => look(who, () => at(round)))
  const some = <T>(list: readonly T[], round: number): T => list[round % list.length]!
  /** From phase 1 on, every assigned seat names its holder as a member. */
  const needMember = (began: number, seat: { id: string; status: string; member: object | null }) => {
    if (began > prepared && seat.status !== 'revoked' && seat.member === null) wrong.push(`seat ${seat.id} has no member`)
  }

  // Readers.
  const liveSeats = seats.filter(({ live }) => live)
  watch('a seat', async (round) => {
    const seat = some(liveSeats, round)
    const began = performance.now()
    const { body } = await ask(api, getSeat, { params: { seat_id: seat.id } })
    needMember(began, body)
    return viewOfHeld(seat, body.customer_id)
  })
  const seatById = new Map(seats.map((seat) => [seat.id, seat]))
  watch('the seats of a subscription', async (round) => {
    const began = performance.now()
    const { body } = await ask(api, listSeats, { query: { subscription_id: some(pools.slice(0, 5), round).subscription_id } })
    for (const seat of body.items) needMember(began, seat)
    return viewOf(body.items.map(({ id, customer_id }) => (seatById.has(id) ? viewOfHeld(seatById.get(id)!, customer_id) : null)))
  })
  const grantById = new Map(grants.map((grant) => [grant.id, grant]))
  watch('the grants of a subscription', async (round) => {
    const { body } = await ask(api, listBenefitGrants, { query: { subscription_id: [some(pools.slice(0, 5), round).subscription_id], limit: 100 } })
    return viewOf(
      body.items.flatMap(({ id, customer_id, customer }) =>
        grantById.has(id) ? [viewOfHeld(grantById.get(id)!, customer_id), viewOfHeld(grantById.get(id)!, customer.id)] : [],
      ),
    )
  })
  const granted = pure.filter((id) => grants.some(({ holder, live }) => live && holder === id))
  watch('the grants of a holder', async (round) => {
    const id = some(granted, round)
    const { items, pagination } = (await ask(api, listBenefitGrants, { query: { customer_id: [id], limit: 100 } })).body
    if (items.length !== pagination.total_count) wrong.push(`${items.length} of ${pagination.total_count} grants`)
    return items.length === 0 ? 2 : viewOf(items.map(({ customer_id, customer }) => (customer_id === id && customer.id === id ? 1 : 'mixed')))
  })
  watch('the grants of a buyer', async (round) => {
    const { buyer } = some(pools.slice(0, 5), round)
    const { items } = (await ask(api, listBenefitGrants, { query: { customer_id: [buyer], limit: 100 } })).body
    const there = new Set(items.map(({ id }) => id))
    return viewOf(grants.filter((grant) => grant.buyer === buyer).map(({ id }) => (there.has(id) ? 2 : 1)))
  })
  const keyed = pure.filter((id) => keyHolders.has(id))
  watch('the keys of a holder', async (round) => {
    const id = some(keyed, round)
    const { items } = (await ask(api, listLicenseKeys, { query: { customer_id: [id], limit: 100 } })).body
    return items.length === 0 ? 2 : viewOf(items.map(({ customer_id }) => (customer_id === id ? 1 : 'mixed')))
  })
  watch('a holder', async (round) => ((await ask(api, getCustomer, { params: { id: some(pure, round) } }, [200, 404])).status === 200 ? 1 : 2))
  const teams = new Set(pools.map(({ buyer }) => buyer))
  watch('the customers', async () => {
    const { items, pagination } = (await ask(api, listCustomers, { query: { query: 'golden.test', limit: 100 } })).body
    if (items.length !== pagination.total_count) wrong.push(`${items.length} of ${pagination.total_count} customers`)
    const there = new Map(items.map((one) => [one.id, one]))
    return viewOf([...pure.map((id) => (there.has(id) ? 1 : 2) as View), ...[...teams].map((id) => (there.get(id)?.type === 'team' ? 2 : 1) as View)])
  })
  // The switch deletes this holder's customer, so the customer's session is refused. The session works again after the undo.
  const holder = granted[0]!
  const theirs = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: holder } })).token })
  watch('the portal of a holder', async () => {
    const { status, body } = await ask(theirs, listPortalBenefitGrants, { query: { limit: 100 } }, [200, 401])
    return status === 401 ? 2 : viewOf(body.items.map(({ customer_id, customer }) => (customer_id === holder && customer.id === holder ? 1 : 'mixed')))
  })

  /** The number of different addresses that a purchase of this size may invite in a day. */
  const dailyAddresses = 10
  // Writers: each assigns the free seat of a team to a person. The person claims the seat, and the seat is revoked again.
  const given = new Map<string, { holder: string | null; buyer: string }>()
  const assigned = async (who: string, buyer: string, at: () => Promise<{ id: string; customer_id: string | null; member: object | null }>) => {
    let seat: Awaited<ReturnType<typeof at>>
    await look(who, async () => {
      seat = await at()
      if (seat.member === null) wrong.push(`${who}: no member`)
      given.set(seat.id, { holder: seat.customer_id === buyer ? null : seat.customer_id, buyer })
      return seat.customer_id === buyer ? 2 : 1
    })
    return seat!
  }
  const again = (seat: { id: string; customer_id: string | null }): View => {
    const { holder: first, buyer } = given.get(seat.id)!
    // A seat that was assigned in phase 2 has no holder customer. Its answer is the same in both phases, even after an undo.
    if (first === null) return seat.customer_id === buyer ? null : 'mixed'
    return viewOfHeld({ holder: first, buyer }, seat.customer_id)
  }
  /** Returns the token of the next invitation. Mails about seats that were revoked before come to the same address. */
  const invitationTo = async (email: string): Promise<string> => {
    for (;;) {
      const { text } = await world.mail.next(email)
      if (text.includes('token=')) return tokenIn(text)
    }
  }
  for (const [at, { subscription_id, buyer }] of pools.slice(0, 3).entries())
    run(`writer ${at}`, async (round) => {
      const email = `writer${at}.${Math.floor(round / 3) % dailyAddresses}@people.test`
      const seat = await assigned(`writer ${at}`, buyer, async () => (await ask(api, assignSeat, { body: { subscription_id, email } })).body)
      const invitation_token = await invitationTo(email)
      await breathe(pace.hurry ? 5 : 50)
      await look(`writer ${at}`, async () => {
        const { seat: claimed, customer_session_token: token } = (await ask(world.client(), claimSeat, { body: { invitation_token } })).body
        await ask(world.client({ token }), getPortalUser, {}, [200, 401])
        return again(claimed)
      })
      await breathe(pace.hurry ? 5 : 50)
      await look(`writer ${at}`, async () => again((await ask(api, revokeSeat, { params: { seat_id: seat.id } })).body))
    })

  /** Waits until every reader and writer has seen the phase, however busy the machine is. */
  const everybodySees = (view: 1 | 2) =>
    eventually(`every client sees phase ${view}`, async () => wrong.length > 0 || [...seen.values()].every((views) => views.at(-1) === view))
  const turn = async (to: 1 | 2) => {
    pace.hurry = true
    await breathe(150)
    const took = fairStopwatch()
    const step = { asked: performance.now(), answered: Infinity, to }
    turns.push(step)
    const { state } = await api.call(to === 2 ? switchMemberMigration : undoMemberMigration, { body: {} })
    step.answered = performance.now()
    expect(state).toBe(to === 2 ? 'phase2' : 'phase1')
    // The switch must not starve under load. `pnpm bench migration` measures how long it blocks requests.
    expect(took()).toBeLessThan(20_000)
    await breathe(300)
    pace.hurry = false
    await reaches(api, to === 2 ? 'phase2' : 'phase1')
    await everybodySees(to)
  }
  const rows = <T extends object>(text: string, ...values: unknown[]) =>
    world.database.owner(async (owner) => (await owner.query<T>(text, [organization.id, ...values])).rows)
  // `lose` revokes a seat from before the migration, and waits until its grants are revoked. It is called in each phase.
  const losing = liveSeats.filter(
    ({ holder: id, subscription_id }) =>
      !pure.includes(id) && grants.some((grant) => grant.live && grant.holder === id && grant.subscription_id === subscription_id),
  )
  const lose = async () => {
    const { id, holder: whose, subscription_id } = losing.pop()!
    await api.call(revokeSeat, { params: { seat_id: id } })
    await eventually('the grants of the seat are revoked', async () => {
      const granted = `select from benefit_grants where organization_id = $1 and holder_customer_id = $2 and subscription_id = $3 and granted_at is not null`
      return (await rows(granted, whose, subscription_id)).length === 0
    })
  }

  await api.call(startMemberMigration, { body: {} })
  await reaches(api, 'phase1')
  prepared = performance.now()
  // Portal sessions of two members: one holds a seat, and one owns a team and assigns seats.
  const seat = await api.call(getSeat, { params: { seat_id: liveSeats.find(({ holder: id }) => id === holder)!.id } })
  const portalOf = async (customer_id: string, member_id: string) =>
    world.client({ token: (await api.call(createCustomerSession, { body: { customer_id, member_id } })).token })
  const portal = await portalOf(seat.member!.customer_id, seat.member!.id)
  watch('the portal of a member', async () => {
    const { items } = (await ask(portal, listPortalBenefitGrants, { query: { limit: 100 } })).body
    return viewOf(items.map((grant) => (grantById.has(grant.id) ? viewOfHeld(grantById.get(grant.id)!, grant.customer_id) : null)))
  })
  const { buyer, subscription_id } = pools[3]!
  const owner = (await api.call(listCustomerMembers, { params: { id: buyer }, query: { limit: 100 } })).items.find(({ role }) => role === 'owner')!
  const office = await portalOf(buyer, owner.id)
  run('an owner', async (round) => {
    const email = `office.${Math.floor(round / 3) % dailyAddresses}@people.test`
    // In the portal a seat belongs to its buyer in every phase.
    const own = (one: { customer_id: string | null; member: object | null }) => {
      if (one.customer_id !== buyer || one.member === null) wrong.push(`an owner saw ${one.customer_id}`)
    }
    const made = (await ask(office, assignPortalSeat, { body: { subscription_id, email } })).body
    own(made)
    await breathe(pace.hurry ? 5 : 50)
    own((await ask(office, revokePortalSeat, { params: { seat_id: made.id } })).body)
  })

  await eventually('every client has started', async () => wrong.length > 0 || seen.size > 12)
  await lose()
  await turn(2)
  await lose()
  await turn(1)
  await lose()
  await turn(2)
  await lose()
  await breathe(500)
  pace.stopping = true
  await Promise.all(running)
  expect(wrong).toEqual([])
  expect([...answers.keys()].filter((said) => Number(said.split(' ')[1]) >= 500)).toEqual([])
  expect([...seen.keys()].length).toBeGreaterThan(12)
  for (const [who, views] of seen) expect([who, views]).toEqual([who, [1, 2, 1, 2]])

  // Checks the events in order. The customer of a seat or grant is its holder until the switch event, and its buyer after it.
  const heard = await eventually('every event was received and every grant is done', async () => {
    const [{ count }] = (await rows<{ count: string }>('select count(*) from events where organization_id = $1 and kind = any($2)', kinds)) as [
      { count: string },
    ]
    const [idle] = await rows<{ idle: boolean }>(
      `select not exists (select from benefit_grants where organization_id = $1 and is_wanted <> (granted_at is not null)) as idle`,
    )
    const arrived = heardAt('/online')
    return idle!.idle && arrived.length === Number(count) && arrived
  })
  const held = new Map<string, { holder: string | null; buyer: string }>()
  for (const table of ['seats', 'benefit_grants'])
    for (const { id, ...who } of await rows<{ id: string; holder: string | null; buyer: string }>(
      `select id, holder_customer_id as holder, buyer_customer_id as buyer from ${table} where organization_id = $1`,
    ))
      held.set(id, who)
  const told = [{ customer_seat: 0, benefit_grant: 0 }]
  for (const { type, data, sequence } of heard) {
    if (type === 'organization.updated') told.push({ customer_seat: 0, benefit_grant: 0 })
    const resource = type.split('.')[0]!
    if (resource !== 'customer_seat' && resource !== 'benefit_grant') continue
    const { holder: whose, buyer: payer } = held.get(data.id)!
    const phase = told.length % 2 === 1 ? 1 : 2
    const right = phase === 1 ? (whose ?? payer) : payer
    if (data.customer_id !== right || (data.customer && data.customer.id !== right)) wrong.push(`${sequence} ${type} of ${data.customer_id} in phase ${phase}`)
    // Does not count events in which holder and buyer are the same, because they look alike in both phases.
    if (whose !== null && whose !== payer) told.at(-1)![resource]++
  }
  expect(wrong).toEqual([])
  expect(told).toHaveLength(4)
  for (const { customer_seat, benefit_grant } of told) expect(Math.min(customer_seat, benefit_grant)).toBeGreaterThan(0)
  const made = heard.filter(({ type }) => type === 'member.created').map(({ data }) => data.id)
  expect(made.toSorted()).toEqual((await rows<{ id: string }>('select id from members where organization_id = $1 order by id::text')).map(({ id }) => id))
  for (const id of pure)
    expect(heard.filter(({ type, data }) => type.startsWith('customer.') && data.id === id).map(({ type }) => type)).toEqual([
      'customer.deleted',
      'customer.created',
      'customer.deleted',
    ])

  // The total count equals the number of listed customers, before and after the undo.
  const counted = async () => {
    const there = new Set<string>()
    for (let page = 1; ; page++) {
      const { items, pagination } = await api.call(listCustomers, { query: { limit: 50, page } })
      for (const { id } of items) there.add(id)
      if (page >= pagination.max_page) {
        expect(there.size).toBe(pagination.total_count)
        return there
      }
    }
  }
  const after = await counted()
  await api.call(undoMemberMigration, { body: {} })
  const before = await counted()
  expect(pure.filter((id) => after.has(id))).toEqual([])
  expect(pure.filter((id) => before.has(id))).toEqual(pure)
})

/** Fields of seats and grants that the integration reads. */
interface SeatTold {
  readonly id: string
  readonly status: string
  readonly member: { readonly id: string; readonly email: string } | null
}
interface GrantTold {
  readonly id: string
  readonly is_granted: boolean
  readonly benefit_id: string
  readonly member: { readonly id: string; readonly email: string } | null
}

/**
 * An integration that knows only members. It tracks seats and benefits from an initial read and later events. It never
 * reads a customer id.
 */
const openIntegration = (api: Client, subscription_id: string) => {
  const seated = new Map<string, string>()
  const given = new Map<string, string>()
  const onSeat = ({ id, status, member }: SeatTold) => {
    if (status !== 'claimed') return void seated.delete(id)
    if (!member) throw new Error(`the seat ${id} is nobody's`)
    seated.set(id, member.id)
  }
  const onGrant = ({ id, is_granted, benefit_id, member }: GrantTold) => {
    if (!is_granted) return void given.delete(id)
    if (!member) throw new Error(`the grant ${id} is nobody's`)
    given.set(id, `${member.id} ${benefit_id}`)
  }
  return {
    begin: async () => {
      for (const seat of (await api.call(listSeats, { query: { subscription_id } })).seats) onSeat(seat)
      for (const grant of (await api.call(listBenefitGrants, { query: { subscription_id: [subscription_id], limit: 100 } })).items) onGrant(grant)
    },
    hear: ({ type, data }: { readonly type: string; readonly data: unknown }) => {
      if ((data as { subscription_id: string | null }).subscription_id !== subscription_id) return
      if (type.startsWith('customer_seat.')) onSeat(data as SeatTold)
      if (type.startsWith('benefit_grant.')) onGrant(data as GrantTold)
    },
    /** Returns the people with access and their benefits, without duplicates. */
    access: () => ({ people: [...new Set(seated.values())].toSorted(), benefits: [...new Set(given.values())].toSorted() }),
    /** Assigns a claimed seat, by address or by member id. */
    seat: (who: { email: string } | { member_id: string }) => api.call(assignSeat, { body: { subscription_id, immediate_claim: true, ...who } }),
    unseat: (member_id: string) =>
      Promise.all([...seated].filter(([, member]) => member === member_id).map(([seat_id]) => api.call(revokeSeat, { params: { seat_id } }))),
    /** Returns the benefit ids that a member sees in the portal. */
    enter: async (member: { id: string; customer_id: string }) => {
      const { token } = await api.call(createCustomerSession, { body: { customer_id: member.customer_id, member_id: member.id } })
      const { items } = await world.client({ token }).call(listPortalBenefitGrants, { query: { limit: 100 } })
      return items.map(({ benefit_id }) => benefit_id).toSorted()
    },
  }
}

test('gives an integration that knows only members the same results in phase 1, across the switch and in phase 2 [S3-09] [S3-12] [S9-03]', async () => {
  /** Runs the same changes in a new organization. Takes the migration steps `first` before them, and `then` in the middle. */
  const live = async (name: string, first: readonly ('switch' | 'undo')[], then: readonly ('switch' | 'undo')[]) => {
    const bundle = golden({ size: 0.3, slug: name })
    const { api } = await importBundle(world, bundle)
    const { pools, pure, seats } = readBundle(bundle)
    const { subscription_id, buyer } = pools[0]!
    const step = async (which: 'switch' | 'undo') => {
      if (which === 'switch') await reaches(api, 'phase1')
      await api.call(which === 'switch' ? switchMemberMigration : undoMemberMigration, { body: {} })
    }
    await api.call(startMemberMigration, { body: {} })
    await reaches(api, 'phase1')
    for (const which of first) await step(which)

    const path = `/${name}`
    const kinds: WebhookEventType[] = [
      'customer_seat.claimed',
      'customer_seat.revoked',
      'benefit_grant.created',
      'benefit_grant.updated',
      'benefit_grant.revoked',
    ]
    await api.call(createWebhookEndpoint, { body: { url: sink.url(path), format: 'raw', events: kinds, strict: true } })
    const integration = openIntegration(api, subscription_id)
    await integration.begin()
    const known = new Set<number>()
    /** Processes received events until all grants are done and the integration knows the same as one that starts now. */
    const settled = () =>
      eventually(`${name} has received every event`, async () => {
        for (const event of heardAt(path).filter(({ sequence }) => !known.has(sequence))) {
          integration.hear(event)
          known.add(event.sequence)
        }
        const fresh = openIntegration(api, subscription_id)
        await fresh.begin()
        const [told, read] = [integration.access(), fresh.access()]
        const done =
          read.people.every((id) => read.benefits.filter((benefit) => benefit.startsWith(id)).length === 3) && read.benefits.length === 3 * read.people.length
        return done && JSON.stringify(told) === JSON.stringify(read) && told
      })
    await settled()

    // Assigns a seat to a new person, and finds a person who holds a seat from before the migration.
    const ada = await integration.seat({ email: 'Ada@people.test' })
    await settled()
    const legacy = seats.find(({ live: is, holder, subscription_id: of }) => is && of === subscription_id && pure.includes(holder))!
    const { member: old } = await api.call(getSeat, { params: { seat_id: legacy.id } })
    const found = [await integration.enter(ada.member!), await integration.enter(old!)]
    await integration.unseat(old!.id)
    await settled()
    for (const which of then) await step(which)
    const bob = await integration.seat({ email: 'bob@people.test' })
    await integration.unseat(ada.member!.id)
    await settled()
    await integration.unseat(bob.member!.id)
    await settled()
    // Assigns the seat again, by member id.
    await integration.seat({ member_id: ada.member!.id })
    const access = await settled()
    found.push(await integration.enter(ada.member!), await integration.enter(old!))

    // Translates ids to names, because people and benefits have other ids in each organization.
    const members = (await api.call(listCustomerMembers, { params: { id: buyer }, query: { limit: 100 } })).items
    const calledBy = new Map<string, string>([
      ...members.map(({ id, email }) => [id, email.toLowerCase()] as const),
      ...bundle.lines.flatMap((line) => (line.type === 'benefit' ? [[line.id, line.description] as const] : [])),
    ])
    const called = (text: string) =>
      text
        .split(' ')
        .map((id) => calledBy.get(id))
        .join(' ')
    return {
      people: access.people.map(called).toSorted(),
      benefits: access.benefits.map(called).toSorted(),
      found: found.map((ids) => ids.map(called).toSorted()),
    }
  }

  const [phase1, across, phase2] = await Promise.all([
    live('stays', [], []),
    live('crosses', [], ['switch', 'undo', 'switch']),
    live('arrived', ['switch'], []),
  ])
  expect(phase1.people).toContain('ada@people.test')
  expect(phase1.people).not.toContain('bob@people.test')
  expect(phase1.benefits).toHaveLength(3 * phase1.people.length)
  expect(phase1.found[0]).toHaveLength(3)
  expect(across).toEqual(phase1)
  expect(phase2).toEqual(phase1)
})
