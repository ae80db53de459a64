import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import { readSettings, root } from '../../harness/image.ts'
import { openMailbox } from '../../harness/mail.ts'
import { eventually, exchange, freePort } from '../../harness/world.ts'

interface Service {
  readonly command: readonly string[]
  readonly env_file: readonly string[]
  readonly healthcheck?: { readonly test?: readonly string[] }
}

/** All processes below one, from `/proc`. */
const descendants = (parent: number): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const [, ppid] = readFileSync(`/proc/${name}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ')
        return Number(ppid) === parent ? [Number(name), ...descendants(Number(name))] : []
      } catch {
        // The process has ended in the meantime.
        return []
      }
    })

/**
 * Starts the image as compose would: migration, API, worker and single commands, each in a container of its own, as the user
 * `node`, with the settings of `deploy/prepare sandbox`. buildah isolates by chroot, so the containers share the network and
 * the processes of this machine. Prints each step.
 */
export const tryImage = async (image: string, buildah: (...args: string[]) => string): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-image-'))
  chmodSync(folder, 0o755)
  const mailbox = await openMailbox()
  const containers: string[] = []
  const open: { name: string; ended: () => boolean; signal: (name: NodeJS.Signals) => void; exited: Promise<number | null> }[] = []
  const done = (text: string) => console.log(`  ok  ${text}`)
  try {
    const server = new URL(execFileSync(join(root, 'scripts/test-postgres'), [String(process.pid)], { encoding: 'utf8' }).trim())
    cpSync(join(root, 'deploy'), join(folder, 'deploy'), { recursive: true, filter: (path) => !path.endsWith('.env') })
    execFileSync(join(folder, 'deploy/prepare'), ['sandbox'])
    const passwords = readSettings(join(folder, 'deploy/sandbox.postgres.env'))
    execFileSync(join(folder, 'deploy/postgres/init.sh'), {
      env: { PATH: process.env.PATH, PGHOST: server.hostname, PGPORT: server.port, ...passwords },
      stdio: 'pipe',
    })
    const { services } = parse(readFileSync(join(root, 'deploy/compose.yaml'), 'utf8'), { merge: true }) as { services: Record<string, Service> }
    const ports = { api: await freePort(), admin: await freePort(), worker: await freePort() }
    const data = join(folder, 'data')
    mkdirSync(data)
    execFileSync('chown', ['1000:1000', data])

    /** Settings that compose would give a service. Replaces names that only its networks know, and ports that are in use. */
    const settingsOf = (service: string): Record<string, string> => ({
      ...(Object.assign({}, ...services[service]!.env_file.map((file) => readSettings(join(folder, 'deploy', file)))) as Record<string, string>),
      BURSAR_LISTEN: `127.0.0.1:${ports.api}`,
      BURSAR_ADMIN_LISTEN: `127.0.0.1:${service.endsWith('worker') ? ports.worker : ports.admin}`,
      BURSAR_PUBLIC_URL: `http://localhost:${ports.api}`,
      BURSAR_SMTP_URL: mailbox.url,
      BURSAR_MAIL_FROM: 'Shop <sandbox@shop.example>',
      BURSAR_DRAIN_SECONDS: '0',
      // buildah gives each container a /data of its own.
      BURSAR_STORAGE_DIR: '/mnt/data/files',
    })
    const start = (service: string, words: readonly string[], more: Record<string, string> = {}) => {
      const container = buildah('from', '--pull-never', image)
      containers.push(container)
      const settings = Object.entries({ ...settingsOf(service), ...more }).map(
        ([name, value]) => `--env=${name}=${value.replace('sandbox-postgres:5432', server.host).replace('sandbox-redis', '127.0.0.1')}`,
      )
      const child = spawn(
        'buildah',
        ['run', '--isolation=chroot', '--user=node', '--cap-drop=all', `--volume=${data}:/mnt/data`, ...settings, container, '--', ...words],
        {
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      )
      let output = ''
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
      const exited = once(child, 'close').then(([code]) => code as number | null)
      return {
        name: service,
        exited,
        output: () => output,
        ended: () => child.exitCode !== null,
        // An engine signals the first process of the container. Here, the process of Node is below several ones of buildah.
        signal: (name: NodeJS.Signals) => {
          for (const pid of descendants(child.pid!)) if (readlinkSync(`/proc/${pid}/exe`).endsWith('/node')) process.kill(pid, name)
        },
      }
    }
    const run = async (service: string, words: readonly string[], wanted = 0): Promise<string> => {
      const program = start(service, words)
      const code = await program.exited
      if (code !== wanted) throw new Error(`${words.join(' ')} ended with ${code} instead of ${wanted}:\n${program.output()}`)
      return program.output()
    }
    const bursar = (service: string, ...args: string[]) => run(service, ['bursar', ...args])

    const writable =
      'find / -xdev -writable ! -type l ! -path "/proc/*" ! -path "/dev/*" ! -path "/sys/*" 2>/dev/null | grep -vE "^/(tmp|var/tmp|run/lock|home/node|data|mnt/data)(/|$)"; id -u'
    if ((await run('sandbox-tools', ['sh', '-c', writable])).trim() !== '1000')
      throw new Error('the user of the image can write elsewhere than in /tmp, its home and its volume')
    done('its user is not root, and can write to folders for temporary files, its home and its volume alone')

    const migrated = await bursar('sandbox-migrate', ...services['sandbox-migrate']!.command)
    if (!migrated.includes('applied: 0001_foundation')) throw new Error(`the migration printed:\n${migrated}`)
    done('migrate, as the owner of the database')

    const health = services['sandbox-api']!.healthcheck!.test!.slice(1)
    await run('sandbox-api', health, 1)
    for (const [service, admin] of [
      ['sandbox-api', ports.admin],
      ['sandbox-worker', ports.worker],
    ] as const) {
      const began = performance.now()
      const program = start(service, ['bursar', ...services[service]!.command])
      open.push(program)
      await eventually(`${service} serves`, async () => {
        if (program.ended()) throw new Error(`${service} ended:\n${program.output()}`)
        return program.output().includes('"msg":"serving"')
      })
      await run(service, health)
      if ((await exchange(admin, 'GET', '/readyz')).status !== 200) throw new Error(`${service} is not ready`)
      done(`${service.slice('sandbox-'.length)} serves after ${((performance.now() - began) / 1000).toFixed(1)} s, its health check and /readyz answer`)
    }

    const doctor = JSON.parse(await bursar('sandbox-tools', 'doctor', '--json')) as { checks: { name: string; state: string }[] }
    done(`doctor: ${doctor.checks.length} checks, ${doctor.checks.filter(({ state }) => state === 'ok').length} ok`)

    const { token } = JSON.parse(await bursar('sandbox-tools', 'seed', '--json')) as { token: string }
    const door = ['--api', `http://127.0.0.1:${ports.api}`, '--token', token]
    const paid = JSON.parse(await bursar('sandbox-tools', 'trigger', 'order.paid', '--json', ...door)) as { resource_id: string }
    done(`a checkout with a test card, and the event order.paid of ${paid.resource_id}`)

    const api = async (method: string, path: string, body?: object) => {
      const headers = { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) }
      const answer = await fetch(`http://127.0.0.1:${ports.api}${path}`, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) })
      if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${await answer.text()}`)
      return answer
    }
    // The fonts for all alphabets are in the image, and the page of the dashboard is.
    const { customer_id } = (await (await api('GET', `/v1/orders/${paid.resource_id}`)).json()) as { customer_id: string }
    await api('PATCH', `/v1/customers/${customer_id}`, { name: 'Åsa 山田 김' })
    const page = await fetch(`http://127.0.0.1:${ports.api}/dashboard/`)
    if (page.status !== 200) throw new Error(`the dashboard answered ${page.status}`)
    const { url } = await eventually('the receipt is ready', async () => {
      await new Promise((resolve) => setTimeout(resolve, 1000))
      const answer = await api('GET', `/v1/orders/${paid.resource_id}/receipt`)
      return answer.status === 200 && ((await answer.json()) as { url: string })
    })
    const receipt = await fetch(url.replace(/^https?:\/\/[^/]+/, `http://127.0.0.1:${ports.api}`))
    if (receipt.status !== 200 || !(await receipt.text()).startsWith('%PDF')) throw new Error(`the receipt answered ${receipt.status}`)
    done('the receipt as PDF, and the dashboard')

    await bursar('sandbox-tools', 'backup', '--to', '/mnt/data/backup')
    done('backup with pg_dump of the image')

    for (const program of open.splice(0)) {
      const began = performance.now()
      program.signal('SIGTERM')
      const code = await program.exited
      if (code !== 0) throw new Error(`${program.name} ended with ${code} after SIGTERM`)
      done(`${program.name.slice('sandbox-'.length)} stops on SIGTERM within ${((performance.now() - began) / 1000).toFixed(1)} s, exit code 0`)
    }
    console.log('image: a paid order with API and worker in containers of their own')
  } finally {
    for (const one of open) one.signal('SIGKILL')
    for (const one of open) await one.exited
    for (const one of containers) buildah('rm', one)
    await mailbox.close()
    rmSync(folder, { recursive: true, force: true })
  }
}
