import { parseArgs } from 'node:util'
import pg from 'pg'
import { measure, paceOf, reference, round, type Speed } from './measure.ts'

/**
 * Measures how fast this machine is, in about ten seconds. Prints the pace and how many test files may run at once.
 * Pace 1 is a quiet machine with two cores, pace 0.25 takes four times as long. `--reference` measures longer and
 * prints the figures for `measure.ts`.
 */
const { values } = parseArgs({ options: { reference: { type: 'boolean' } } })
const server = process.env.BURSAR_TEST_SERVER ?? 'postgres://postgres@127.0.0.1:5432'
const show = ({ cpu, commits }: Speed) => `${Math.round(cpu)} CPU rounds/s, ${Math.round(commits)} commits/s`

/** Returns the number of connections that PostgreSQL accepts. */
const connections = async (): Promise<number> => {
  const client = new pg.Client({ connectionString: `${server}/postgres` })
  await client.connect()
  try {
    const { rows } = await client.query<{ max_connections: string }>('show max_connections')
    return Number(rows[0]!.max_connections)
  } finally {
    await client.end()
  }
}

const speeds: Speed[] = []
for (let at = 0; at < (values.reference ? 12 : 3); at++) {
  speeds.push(await measure(`${server}/postgres`, 1500))
  if (values.reference) console.log(show(speeds.at(-1)!))
}
const best = { cpu: Math.max(...speeds.map(({ cpu }) => cpu)), commits: Math.max(...speeds.map(({ commits }) => commits)) }
if (values.reference) console.log(`best: ${show(best)}`)
else {
  const middle = speeds.toSorted((a, b) => paceOf(a) - paceOf(b))[1]!
  console.error(`pace: ${round(paceOf(middle))} · ${show(middle)} · a quiet machine: ${show(reference)}`)
  // Test processes opened up to 29 connections each in earlier measurements. A third process therefore needs enough
  // connections and a machine that is not slow.
  const workers = round(paceOf(middle)) >= 0.5 && (await connections()) >= 200 ? 3 : 2
  console.log(round(paceOf(middle)), workers)
}
