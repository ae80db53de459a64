import { spawn, type ChildProcess } from 'node:child_process'
import { connect, createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'

/** Starts a separate Redis for one test. It can be stopped, started and emptied. */
export const openOwnRedis = async () => {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  let child: ChildProcess | undefined
  const start = async () => {
    child = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'], { stdio: 'ignore' })
    for (;;) {
      const open = await new Promise<boolean>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false))
        socket.on('connect', () => socket.end())
      })
      if (open) return
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  const stop = async () => {
    const gone = child && once(child, 'exit')
    child?.kill('SIGKILL')
    await gone
  }
  await start()
  return { url: `redis://127.0.0.1:${port}`, start, stop, port }
}
