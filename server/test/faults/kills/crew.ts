import { launch, portOf, type Program } from '../../harness/process.ts'

const workerProgram = new URL('worker.ts', import.meta.url).pathname
const pause = (milliseconds: number) => new Promise<void>((resolve) => void setTimeout(resolve, milliseconds))

/** A slot in which one process runs. Whenever the process ends, for any reason, a new one is started. */
export interface Post {
  readonly role: 'api' | 'worker'
  /** The running process and the data of its startup log line. Undefined while no process is ready. */
  ready: { readonly program: Program; readonly port: number; readonly worker: string } | undefined
  stopped: boolean
  /** The last process that was started, ready or not. */
  program: Program | undefined
}

export interface Tally {
  /** Processes that ended without being killed or that did not start: their role, their exit code and the end of their output. */
  readonly quit: string[]
  leases_lost: number
  reaped: number
  /** Logged errors by kind, with one example each. */
  readonly errors: Map<string, { count: number; example: string }>
}

/** Returns the last lines of a program's output. */
const endOf = (program: Program): string[] =>
  program
    .output()
    .trimEnd()
    .split('\n')
    .slice(-5)
    .map((line) => line.slice(0, 600))

/** Runs one API and two workers, or the given processes, and restarts them when they end. */
export const openCrew = (settings: Record<string, string>, lease_ms: number, roles: readonly Post['role'][] = ['api', 'worker', 'worker']) => {
  const tally: Tally = { quit: [], leases_lost: 0, reaped: 0, errors: new Map() }
  const posts: Post[] = roles.map((role) => ({ role, ready: undefined, stopped: false, program: undefined }))
  const life = { closing: false }
  let turn = 0
  const alive = new Set<Program>()

  const read = (text: string) => {
    for (const line of text.split('\n')) {
      if (line.includes('"lease_lost"')) tally.leases_lost++
      if (line.includes('"worker_reaped"')) tally.reaped++
      if (!line.startsWith('{') || !/"level":"error"|"(sweep|job|request)_failed"/.test(line)) continue
      const { msg, job = '', error } = JSON.parse(line) as { msg: string; job?: string; error?: { message?: string } | string }
      const name = `${msg} ${job}: ${(typeof error === 'string' ? error : error?.message) ?? ''}`.slice(0, 160)
      const known = tally.errors.get(name)
      tally.errors.set(name, { count: (known?.count ?? 0) + 1, example: known?.example ?? line.slice(0, 1500) })
    }
  }
  const serve = async (post: Post): Promise<void> => {
    while (!life.closing) {
      const program =
        post.role === 'api' ? launch(['serve', '--roles', 'api'], settings) : launch(['serve', String(lease_ms)], settings, undefined, workerProgram)
      alive.add(program)
      post.program = program
      const ready = post.role === 'api' ? program.line('listening') : program.line('worker_started')
      ready.then(
        (line) => void (post.ready = { program, port: post.role === 'api' ? portOf(line) : 0, worker: String(line.worker) }),
        () => {},
      )
      // The longest interruption of the database takes seconds, so a start that takes two minutes hangs.
      const late = setTimeout(() => {
        if (post.ready?.program === program) return
        tally.quit.push([`${post.role}, not ready after two minutes`, ...endOf(program)].join('\n    '))
        program.signal('SIGKILL')
      }, 120_000)
      await program.exited
      clearTimeout(late)
      // Waits for the last output of the process, which can arrive after its exit.
      await new Promise((resolve) => setImmediate(resolve))
      alive.delete(program)
      if (program.child.signalCode !== 'SIGKILL') {
        tally.quit.push([`${post.role}, exit code ${program.child.exitCode ?? program.child.signalCode}`, ...endOf(program)].join('\n    '))
      }
      post.ready = undefined
      post.stopped = false
      read(program.output())
      if (!life.closing) await pause(program.child.signalCode === 'SIGKILL' ? 0 : 250)
    }
  }
  const serving = posts.map(serve)
  const isFit = (post: Post) => post.ready !== undefined && !post.stopped
  return {
    posts,
    tally,
    /** Waits until processes of a role run. Returns the one that the callback chooses. */
    pick: async (role: Post['role'], choose: (count: number) => number) => {
      for (;;) {
        const fit = posts.filter((post) => post.role === role && isFit(post))
        const post = fit[choose(fit.length)]
        if (post) return post
        await pause(20)
      }
    },
    /** Returns the port of an API process that is ready, of each in turn. */
    port: () => {
      const ports = posts.flatMap(({ role, ready }) => (role === 'api' && ready ? [ready.port] : []))
      return ports[turn++ % ports.length]
    },
    /** Describes every process with the end of its output. */
    describe: () =>
      posts
        .map(({ role, ready, stopped, program }) =>
          [`${role}, process ${program?.child.pid}, ${ready ? 'ready' : 'not ready'}${stopped ? ', stopped' : ''}`, ...(program ? endOf(program) : [])].join(
            '\n    ',
          ),
        )
        .join('\n'),
    close: async () => {
      life.closing = true
      for (const program of alive) {
        program.signal('SIGCONT')
        program.signal('SIGKILL')
      }
      await Promise.all(serving)
    },
  }
}
export type Crew = ReturnType<typeof openCrew>
