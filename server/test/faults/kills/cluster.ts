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

/** Starts a separate PostgreSQL that may be killed. It writes each commit to disk, as in production. */
export const openCluster = async () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-kills-'))
  // PostgreSQL does not run as root, so its user needs access to the folder.
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
        // A start fails until the child processes of the killed server have noticed its end and released the shared memory.
        if (attempt >= 100) throw error
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
  }
  return {
    url: `postgres://postgres@127.0.0.1:${port}`,
    /** Kills the server without time to write anything, then starts it again as soon as possible. */
    killServer: async () => {
      if (!hasEnded()) {
        const dead = new Promise((resolve) => running.child.once('exit', resolve))
        running.child.kill('SIGKILL')
        await dead
      }
      await restart()
    },
    /** Shuts the server down cleanly, as an operator does. It stays down until `start` is called. */
    stop: async () => {
      // A fast shutdown: PostgreSQL closes connections and writes a checkpoint.
      running.child.kill('SIGINT')
      await running.exited
    },
    /** Starts the server again if it is stopped. */
    start: async () => {
      if (hasEnded()) await restart()
    },
    /** Kills one backend process. The server then closes all other connections and recovers by itself. */
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
    /** Describes the server: whether it runs, and its processes. */
    describe: () =>
      hasEnded()
        ? `ended with ${running.child.exitCode ?? running.child.signalCode}`
        : childrenOf(running.child.pid!)
            .map(({ pid, command }) => `\n    ${pid} ${command.trim()}`)
            .join(''),
    close: async () => {
      if (!hasEnded()) running.child.kill('SIGQUIT')
      await running.exited
      for (const path of [folder, socket]) rmSync(path, { recursive: true, force: true })
    },
  }
}
export type Cluster = Awaited<ReturnType<typeof openCluster>>

/** Returns the child processes of a process with their command lines, from `/proc`. */
const childrenOf = (parent: number): { pid: number; command: string }[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        // The program name is in brackets and may contain any character.
        const [, ppid] = readFileSync(`/proc/${name}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ')
        if (Number(ppid) !== parent) return []
        return [{ pid: Number(name), command: readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ') }]
      } catch {
        // The process has ended in the meantime.
        return []
      }
    })
