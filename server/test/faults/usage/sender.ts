import { connect, Refused } from '@bursar/contract/client'
import { exchange } from '../../harness/world.ts'
import type { Crew } from '../kills/crew.ts'

export const pause = (milliseconds: number) => new Promise<void>((resolve) => void setTimeout(resolve, milliseconds))

/** Returns a client of the running API processes, and a function that repeats a request until it is answered. */
export const openSender = (crew: Crew, token: string) => {
  const figures = { repeated: 0, problems: [] as string[] }
  const client = connect(
    async (request) => {
      const port = crew.port()
      if (port === undefined) throw new Error('no process listens')
      return exchange(port, request.method, request.url, request.headers, request.body)
    },
    { authorization: `Bearer ${token}` },
  )
  /** Retries until the request is answered. Records a refusal that no retry can change as a problem. */
  const insist = async <T>(what: string, ask: () => Promise<T>): Promise<T | undefined> => {
    let last = ''
    for (let attempt = 0; attempt < 1200; attempt++) {
      try {
        return await ask()
      } catch (error) {
        const status = error instanceof Refused ? error.reply.status : 0
        figures.repeated++
        last = (error as Error).message
        if (status >= 400 && status < 500 && status !== 409 && status !== 429) {
          figures.problems.push(`${what}: ${last}`)
          return undefined
        }
        await pause(100)
      }
    }
    figures.problems.push(`${what} is never answered: ${last}`)
    return undefined
  }
  return { client, insist, figures }
}
export type Sender = ReturnType<typeof openSender>
