import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startServer } from '../../../src/main/embedded.ts'

export const freePort = () =>
  new Promise<number>((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })

/** A PostgreSQL of its own, which may be killed: it keeps what it has committed, as it would in production. */
export const openCluster = async () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-kills-'))
  // PostgreSQL does not run as root: whoever it runs as has to reach its folder.
  chmodSync(folder, 0o755)
  const socket = mkdtempSync(join(tmpdir(), 'bursar-kills-socket-'))
  const port = await freePort()
  const settings = [`port=${port}`, 'listen_addresses=127.0.0.1', 'fsync=on', 'synchronous_commit=on', 'max_connections=300', 'restart_after_crash=on']
  let running = await startServer(folder, socket, settings)

  const hasEnded = () => running.child.exitCode !== null || running.child.signalCode !== null
  const restart = async () => {
    for (let attempt = 1; ; attempt++)
      try {
        running = await startServer(folder, socket, settings)
        return
      } catch (error) {
        // Children of the dead one still hold its memory, until they notice.
        if (attempt >= 100) throw error
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
  }
  return {
    url: `postgres://postgres@127.0.0.1:${port}`,
    /** The server at once, with no time to write anything; started again as soon as that can be. */
    killServer: async () => {
      if (!hasEnded()) {
        const dead = new Promise((resolve) => running.child.once('exit', resolve))
        running.child.kill('SIGKILL')
        await dead
      }
      await restart()
    },
    /** One process of it, that serves a connection: the server breaks off all others, and recovers by itself. */
    killBackend: (choose: (count: number) => number): boolean => {
      const serving = childrenOf(running.child.pid!).filter(({ command }) => command.startsWith('postgres: bursar_test_login '))
      const victim = serving[choose(serving.length)]
      if (!victim) return false
      try {
        process.kill(victim.pid, 'SIGKILL')
        return true
      } catch {
        return false
      }
    },
    close: async () => {
      running.child.kill('SIGQUIT')
      await running.exited
      for (const path of [folder, socket]) rmSync(path, { recursive: true, force: true })
    },
  }
}
export type Cluster = Awaited<ReturnType<typeof openCluster>>

/** The processes that a process has started, and what they call themselves; `/proc` knows. */
const childrenOf = (parent: number): { pid: number; command: string }[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        // The name of a program stands in brackets, and may contain anything.
        const [, ppid] = readFileSync(`/proc/${name}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ')
        if (Number(ppid) !== parent) return []
        return [{ pid: Number(name), command: readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ') }]
      } catch {
        // Gone in the meantime.
        return []
      }
    })
