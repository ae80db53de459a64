import { requestSignInCode, updateOrganization } from '@bursar/contract'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openWorker } from '../../src/main/wire.ts'
import { fairStopwatch } from '../harness/fair.ts'
import { launch, type Program } from '../harness/process.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

let world: World
let blocker: pg.Client
const programs: Program[] = []

beforeEach(async () => {
  world = await openWorld()
  blocker = new pg.Client({ connectionString: world.database.owner_url })
  await blocker.connect()
  // Triggers record each committed effect in a table of the test, to count effects that happen twice.
  await world.database.owner((owner) =>
    owner.query(`
      create table witnessed (id uuid, at timestamptz default clock_timestamp());
      grant insert on witnessed to bursar_worker;
      create function witness() returns trigger language plpgsql as $$ begin insert into witnessed (id) values (new.id); return new; end $$;
      create trigger witness after update of status on organization_invitations for each row when (new.status = 'expired') execute function witness();
      create trigger witness_code after update of hash on sign_in_codes for each row when (new.hash is not null) execute function witness();
      create trigger witness_number after update of sequence on events for each row execute function witness();`),
  )
})
afterEach(async () => {
  for (const program of programs.splice(0)) {
    program.signal('SIGCONT')
    program.signal('SIGKILL')
    await program.exited
  }
  await blocker.end()
  await world.close()
})

const worker = async () => {
  // The default timeout of a deployment. It is shorter than in other tests, so that blocked statements fail within this test.
  const program = launch(['serve', '--roles', 'worker'], { ...world.environmentVariables, BURSAR_DATABASE_TIMEOUT_MS: '5000' })
  programs.push(program)
  await program.line('worker_started')
  return program
}

const rows = async <T>(text: string, values: unknown[] = []) => (await world.database.owner((owner) => owner.query(text, values))).rows as T[]
const witnessed = async () =>
  (await rows<{ id: string; times: number }>('select id, count(*)::int as times from witnessed group by id')).map(({ times }) => times)
const blocked = (statements = 1) =>
  eventually('the worker waits for a lock', async () => {
    const waiting = await rows(
      `select 1 from pg_stat_activity where datname = current_database() and application_name = 'bursar_worker' and wait_event_type = 'Lock'`,
    )
    return waiting.length >= statements
  })

/** Creates invitations that expire now. A test that locks the credential rows blocks a worker in the middle of its work. */
const invitations = async (count: number) => {
  const organization = await world.organization()
  await world.database.owner((owner) =>
    owner.query(
      `with made as (
         insert into organization_invitations (organization_id, id, created_at, email, role, status, expires_at, due_at)
         select $1, gen_random_uuid(), now(), 'p' || n || '@people.test', 'member', 'pending', now() - interval '1 minute', now() - n * interval '1 minute' from generate_series(1, $2) n
         returning organization_id, id
       )
       insert into credentials select encode(sha256(id::text::bytea), 'hex'), 1, 'invitation', id, organization_id from made`,
      [organization.id, count],
    ),
  )
  const [first] = await rows<{ id: string }>('select id from organization_invitations where organization_id = $1 order by due_at limit 1', [organization.id])
  return { organization, first: first!.id }
}

test('repeats the job of a killed worker within five seconds on another worker, with one effect', async () => {
  const person = await world.person()
  await world.client().call(requestSignInCode, { body: { email: person.email } })
  await blocker.query('begin')
  await blocker.query('select 1 from sign_in_codes for update')
  const doomed = await worker()
  await blocked()
  const heir = await worker()
  doomed.signal('SIGKILL')
  const since = fairStopwatch()
  await doomed.exited
  await blocker.query('rollback')
  await world.mail.next(person.email)
  expect(since()).toBeLessThan(5_000)
  await heir.line('worker_reaped')
  await eventually('the queue is empty', async () => (await rows('select 1 from graphile_worker._private_jobs')).length === 0)
  expect(await witnessed()).toEqual([1])
  expect(world.mail.letters).toEqual([])
})

test('assigns each event one sequence number within five seconds after a worker is killed while assigning them', async () => {
  const organization = await world.organization()
  await world.client({ token: (await organization.token()).secret }).call(updateOrganization, { params: { id: organization.id }, body: { name: 'Renamed' } })
  await blocker.query('begin')
  await blocker.query('insert into event_heads (organization_id, last_sequence) values ($1, 0)', [organization.id])
  const doomed = await worker()
  await blocked()
  await worker()
  doomed.signal('SIGKILL')
  const since = fairStopwatch()
  await doomed.exited
  await blocker.query('rollback')
  await eventually('the event has a sequence number', async () => (await witnessed()).length > 0)
  expect(since()).toBeLessThan(5_000)
  expect(await witnessed()).toEqual([1])
  expect(await rows('select last_sequence::int from event_heads')).toEqual([{ last_sequence: 1 }])
})

test('processes the leased rows of a killed worker within five seconds on another worker, with one effect each', async () => {
  const { organization, first } = await invitations(3)
  await blocker.query('begin')
  await blocker.query('select 1 from credentials where subject_id = $1 for update', [first])
  const doomed = await worker()
  await blocked()
  const heir = await worker()
  doomed.signal('SIGKILL')
  const since = fairStopwatch()
  await doomed.exited
  await blocker.query('rollback')
  await eventually('every invitation is closed', async () => (await witnessed()).length === 3)
  expect(since()).toBeLessThan(5_000)
  await heir.line('worker_reaped')
  expect(await witnessed()).toEqual([1, 1, 1])
  expect(
    await rows(`select 1 from organization_invitations where organization_id = $1 and (status <> 'expired' or due_at is not null or lease_token is not null)`, [
      organization.id,
    ]),
  ).toEqual([])
})

test('refuses every write of a worker that continues after its leases have expired', async () => {
  await invitations(8)
  await blocker.query('begin')
  await blocker.query('select 1 from credentials for update')
  const sleeper = await worker()
  await blocked(5)
  sleeper.signal('SIGSTOP')
  // The worker has leased eight rows. Five of them have a blocked statement, and three wait for a connection.
  const given_up = `select 1 from pg_stat_activity where datname = current_database() and state = 'idle in transaction (aborted)'`
  await eventually('the statements of the stopped worker time out', async () => (await rows(given_up)).length === 5)
  await blocker.query('rollback')
  await worker()
  await eventually('the other worker takes over after the leases expire', async () => (await witnessed()).length === 8)
  const states = () => rows('select * from organization_invitations order by id')
  const before = await states()
  sleeper.signal('SIGCONT')
  await eventually('the continued worker has lost all eight leases', async () => sleeper.output().split('"job":"identity.expire_invitations"').length > 8)
  expect(await witnessed()).toEqual(Array.from({ length: 8 }, () => 1))
  expect(await states()).toEqual(before)
})

test('restarts the worker within the same process after all its database connections are cut', async () => {
  const program = await worker()
  const first = (await program.line('worker_started')).worker
  await rows(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'bursar%' and pid <> pg_backend_pid()`,
  )
  await program.line('worker_started', ({ worker: id }) => id !== first)
  const organization = await world.organization()
  await world
    .client({ token: (await organization.token()).secret })
    .call(updateOrganization, { params: { id: organization.id }, body: { name: 'After the cut' } })
  await eventually('the restarted worker runs the job', async () => (await witnessed()).length === 1)
  program.signal('SIGTERM')
  expect(await program.exited).toBe(0)
})

test('ends a worker that is closed at the moment it starts again after a lost connection', async () => {
  const { base } = world
  let lives = 0
  const stopped = Promise.withResolvers<void>()
  const info: typeof base.log.info = (event, fields) => {
    base.log.info(event, fields)
    if (event === 'worker_started' && ++lives === 2) stopped.resolve(running.close())
  }
  const running = await openWorker({ ...base, log: { ...base.log, info } })
  await rows(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'bursar_worker_life'`)
  await stopped.promise
  expect(world.lines.filter((line) => line.includes('"worker_stopped"'))).toHaveLength(2)
})
