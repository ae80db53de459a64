import type { Dashboards } from '../../harness/dashboards.ts'
import type { Sink } from '../../harness/sink.ts'
import type { Teams } from '../../harness/teams.ts'
import type { World } from '../../harness/world.ts'

type Opened = Awaited<ReturnType<Dashboards['enter']>>

/** The browser of a seller, and the world around it, as tasks use them. */
export interface TaskContext extends Pick<Opened, 'page' | 'context' | 'go' | 'at' | 'broken' | 'refused'> {
  readonly world: World
  readonly teams: Teams
  readonly sink: Sink
  readonly seller: Awaited<ReturnType<Dashboards['seller']>>
}

/** One task of a seller, done with the keyboard alone. */
export interface Task {
  readonly name: string
  readonly run: (context: TaskContext) => Promise<void>
}
