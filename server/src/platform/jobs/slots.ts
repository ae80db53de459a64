import { jobClasses, type JobClass } from './catalogue.ts'

/** The number of jobs that one worker runs at the same time. */
export const concurrency: number = jobClasses.urgent.slots

/** The number of transactions over groups of rows that one kind of work runs at the same time. Each keeps a core of the database busy. */
export const groupTransactions = 4

const order = Object.keys(jobClasses) as JobClass[]

/** The labels of a job in the queue: its class, and its class with its organization. A worker skips jobs by these labels. */
export const flagsOf = (jobClass: JobClass, { organization_id }: { readonly organization_id?: unknown }): string[] =>
  typeof organization_id === 'string' ? [jobClass, `${jobClass}:${organization_id}`] : [jobClass]

/** A job as the queue reports it. Jobs that an older version enqueued have no flags, and count as ordinary. */
interface Fetched {
  readonly flags: Readonly<Record<string, boolean>> | null
}

/**
 * Limits the running jobs of one worker by class and by organization. The slots above the limit of a class stay free
 * for more urgent classes. A job that exceeds a limit stays in the queue, and other jobs overtake it.
 */
export const openSlots = () => {
  const running = new Map<string, number>()
  const add = ({ flags }: Fetched, change: 1 | -1) => {
    for (const flag of Object.keys(flags ?? { ordinary: true })) {
      const count = (running.get(flag) ?? 0) + change
      if (count > 0) running.set(flag, count)
      else running.delete(flag)
    }
  }
  const count = (flag: string) => running.get(flag) ?? 0
  /** Lists the labels of jobs that must not start now. */
  const full = (): string[] => {
    const flags: string[] = []
    order.forEach((jobClass, at) => {
      const { slots, per_organization } = jobClasses[jobClass]
      const later = order.slice(at)
      if (later.reduce((sum, one) => sum + count(one), 0) >= slots) flags.push(...later)
      for (const [flag, used] of running) if (flag.startsWith(`${jobClass}:`) && used >= per_organization) flags.push(flag)
    })
    return [...new Set(flags)]
  }
  let turn: Promise<void> = Promise.resolve()
  let end = () => {}
  return {
    /**
     * Returns the labels to skip, for one fetch. Fetches take turns: two fetches at once could both take the last slot
     * of an organization. The turn ends with `fetched` or `missed`.
     */
    begin: async (): Promise<string[]> => {
      const before = turn
      const { promise, resolve } = Promise.withResolvers<void>()
      turn = promise
      await before
      end = resolve
      return full()
    },
    /** Counts the fetched job, and ends the turn. */
    fetched: (job: Fetched): void => {
      add(job, 1)
      end()
    },
    /** Ends the turn of a fetch that found no job. */
    missed: (): void => end(),
    /** Frees the slot of a job that succeeded or failed. */
    done: (job: Fetched): void => add(job, -1),
  }
}
