import { assignSeat, claimSeat, resendSeatInvitation, revokeSeat, updateSubscription } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTeams, type Team, type Teams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'
import { counted } from '../harness/pace.ts'

/** Number of rounds of each race. The long run plays a hundred. */
const rounds = counted('ROUNDS', 5, 2)

let world: World
let teams: Teams
beforeAll(async () => {
  world = await openWorld()
  teams = await openTeams(world)
})
afterAll(async () => {
  await teams.close()
  await world.close()
})

const times = <T>(count: number, work: (at: number) => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: count }, (_, at) => work(at)))
const errorOf = ({ status, body }: { status: number; body: unknown }) => (status === 200 ? '200' : `${status} ${(body as { error: string }).error}`)
const tally = (answers: readonly { status: number; body: unknown }[]) => {
  const counts: Record<string, number> = {}
  for (const answer of answers) counts[errorOf(answer)] = (counts[errorOf(answer)] ?? 0) + 1
  return counts
}
const rows = <T extends object>(text: string, values: readonly unknown[]) =>
  world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)
const live = async (team: Team) =>
  (
    await rows<{ taken: number; seats: number }>(
      `select (select count(*)::int from seats x where x.subscription_id = s.id and x.status <> 'revoked') as taken, s.seats from subscriptions s where s.id = $1`,
      [team.subscription_id],
    )
  )[0]!

test('accepts one of fifty parallel assignments of the last free seat', { timeout: 900_000 }, async () => {
  const team = await teams.buy({ seats: 2 })
  await teams.assign(team, { immediate_claim: true, email: 'first@people.test' })
  for (let round = 0; round < rounds; round++) {
    const answers = await times(50, (at) =>
      team.api.send(assignSeat, { body: { ...team.pool, email: `r${round}-${at}@people.test`, immediate_claim: at % 2 === 0 } }),
    )
    expect(tally(answers), `round ${round}`).toEqual({ '200': 1, '400 SeatNotAvailable': 49 })
    expect(await live(team), `round ${round}`).toEqual({ taken: 2, seats: 2 })
    // Refused assignments leave no member behind.
    expect((await rows(`select from members where customer_id = $1 and email like $2`, [team.customer_id, `r${round}-%`])).length).toBe(1)
    const won = answers.find(({ status }) => status === 200)!.body as { id: string }
    await team.api.call(revokeSeat, { params: { seat_id: won.id } })
  }
})

test('assigns one seat if the same person is assigned a seat by fifty parallel requests', { timeout: 900_000 }, async () => {
  const team = await teams.buy({ seats: 1000 })
  for (let round = 0; round < rounds; round++) {
    const answers = await times(50, (at) =>
      team.api.send(assignSeat, { body: { ...team.pool, email: `${at % 2 === 0 ? 'same' : 'SAME'}-${round}@people.test` } }),
    )
    expect(tally(answers), `round ${round}`).toEqual({ '200': 1, '400 SeatAlreadyAssigned': 49 })
  }
  expect((await live(team)).taken).toBe(rounds)
})

test('claims one seat, opens one session and emits one event if an invitation is accepted by fifty parallel requests', { timeout: 900_000 }, async () => {
  const team = await teams.buy({ seats: 1000 })
  for (let round = 0; round < rounds; round++) {
    const seat = await teams.assign(team, { email: `invited-${round}@people.test` })
    const invitation_token = await teams.invited(seat)
    const answers = await times(50, () => world.client().send(claimSeat, { body: { invitation_token } }))
    expect(tally(answers), `round ${round}: one accepts`).toEqual({ '200': 1, '400 InvalidInvitationToken': 49 })
    const [counted] = await rows<{ sessions: number; told: number; jobs: number }>(
      `select (select count(*)::int from customer_sessions where member_id = $1) as sessions,
         (select count(*)::int from events where resource_id = $2 and kind = 'customer_seat.claimed') as told,
         (select count(*)::int from graphile_worker._private_jobs where payload->>'seat_id' = $2::text and payload->>'subscription_id' is not null) as jobs`,
      [seat.member_id, seat.id],
    )
    expect(counted, `round ${round}`).toEqual({ sessions: 1, told: 1, jobs: 1 })
    await teams.settle()
  }
})

test(
  'keeps seat, events and answers consistent when a claim races a revocation or a new invitation, and the old link stops working',
  { timeout: 900_000 },
  async () => {
    const team = await teams.buy({ seats: 1000 })
    const outcomes: Record<string, number> = {}
    for (let round = 0; round < rounds; round++) {
      const seat = await teams.assign(team, { email: `torn-${round}@people.test` })
      const invitation_token = await teams.invited(seat)
      const params = { seat_id: seat.id }
      const other = round % 2 === 0 ? revokeSeat : resendSeatInvitation
      const [claimed, meanwhile] = await Promise.all([world.client().send(claimSeat, { body: { invitation_token } }), team.api.send(other, { params })])
      const [row] = await rows<{ status: string; told: string[] }>(
        `select status, array(select kind from events where resource_id = s.id order by position) as told from seats s where id = $1`,
        [seat.id],
      )
      const accepted = claimed.status === 200
      const told = ['customer_seat.assigned', ...(accepted ? ['customer_seat.claimed'] : []), ...(other === revokeSeat ? ['customer_seat.revoked'] : [])]
      expect(row, `round ${round}`).toEqual({ status: other === revokeSeat ? 'revoked' : accepted ? 'claimed' : 'pending', told })
      expect(errorOf(meanwhile)).toBe(other === resendSeatInvitation && accepted ? '400 SeatNotPending' : '200')
      // The invitation link no longer works in any case, because it was used, revoked or replaced.
      expect((await world.client().send(claimSeat, { body: { invitation_token } })).status).toBe(400)
      const outcome = `${accepted ? 'accepted' : 'too late'}, ${other === revokeSeat ? 'revoked' : 'invited again'}`
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    }
    process.stdout.write(`accept against revoke and resend: ${JSON.stringify(outcomes)}\n`)
  },
)

test('never has more seats in use than bought when a reduction of the seats races assignments', { timeout: 900_000 }, async () => {
  const outcomes = { reduced: 0, assigned: 0 }
  const shop = await world.shop()
  const team = await teams.buy({ seats: 3, shop })
  await teams.assign(team, { email: 'one@people.test', immediate_claim: true })
  await teams.assign(team, { email: 'two@people.test' })
  const params = { id: team.subscription_id! }
  for (let round = 0; round < rounds; round++) {
    const behavior = round % 2 === 0 ? ('prorate' as const) : ('next_period' as const)
    const assigning = () =>
      times(5, (at) => team.api.send(assignSeat, { body: { ...team.pool, email: `late-${round}-${at}@people.test`, immediate_claim: true } }))
    const reducing = () => team.api.send(updateSubscription, { params, body: { seats: 2, proration_behavior: behavior } })
    // The request that is sent first often commits first. The order alternates, so that both sequences are tested.
    const [assigned, reduced] =
      round % 4 < 2
        ? await Promise.all([assigning(), reducing()])
        : ((await Promise.all([reducing(), assigning()])).toReversed() as [Awaited<ReturnType<typeof assigning>>, Awaited<ReturnType<typeof reducing>>])
    const fewer = reduced.status === 200
    expect([errorOf(reduced), tally(assigned)], `round ${round}`).toEqual(
      fewer ? ['200', { '400 SeatNotAvailable': 5 }] : ['400 SeatsAlreadyAssigned', { '200': 1, '400 SeatNotAvailable': 4 }],
    )
    const { taken, seats } = await live(team)
    expect(taken, `round ${round}`).toBeLessThanOrEqual(fewer && behavior === 'next_period' ? 2 : seats)
    outcomes[fewer ? 'reduced' : 'assigned']++
    for (const { status, body } of assigned) if (status === 200) await team.api.call(revokeSeat, { params: { seat_id: (body as { id: string }).id } })
    await rows('delete from subscription_updates where subscription_id = $1', [team.subscription_id])
    await rows('update subscriptions set seats = 3 where id = $1', [team.subscription_id])
  }
  process.stdout.write(`fewer seats against assignment: ${rounds} rounds, ${outcomes.reduced} reduced first, ${outcomes.assigned} assigned first\n`)
})
