import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')
/** The base that `scripts/image/base` makes, and the image. buildah keeps both among its images. */
const localBase = 'localhost/bursar-base'
export const image = 'localhost/bursar'
export const sbomFile = join(root, '.scratch/image/bursar.cdx.json')

/** buildah works without a daemon and without namespaces, so that it also runs inside a container. */
const env = { ...process.env, BUILDAH_ISOLATION: 'chroot' }
export const buildah = (...args: string[]): string =>
  execFileSync('buildah', args, { cwd: root, env, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] }).trim()

/** Returns the size of an image: the bytes of its layers, unpacked. */
export const sizeOf = (name: string): number => {
  const container = buildah('from', '--pull-never', name)
  try {
    return Number(execFileSync('du', ['-sb', buildah('mount', container)], { encoding: 'utf8' }).split('\t')[0])
  } finally {
    buildah('rm', container)
  }
}

const missing = (): string[] => ['buildah', 'debootstrap'].filter((program) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0)

/** Fails if a program is missing, unless its package may be installed. */
export const needPrograms = (install: boolean): void => {
  const names = missing()
  if (names.length === 0) return
  if (!install) throw new Error(`${names.join(' and ')} must be installed: apt-get install ${names.join(' ')}. pnpm image --install does it`)
  execFileSync('apt-get', ['install', '--yes', '--no-install-recommends', ...names], {
    stdio: 'inherit',
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  })
}

interface Wanted {
  /** An image with Debian 12, Node, npm and the user `node`. Without one, a base is made with debootstrap. */
  readonly base?: string | undefined
  /** Whether missing packages of Debian may be installed. */
  readonly install?: boolean | undefined
  readonly version: string
}

/** Builds the image. Returns its name, and that of its base. */
export const buildImage = ({ base, install = false, version }: Wanted): { image: string; base: string } => {
  needPrograms(install)
  if (base === undefined && spawnSync('buildah', ['inspect', '--type=image', localBase], { env }).status !== 0)
    execFileSync(join(root, 'scripts/image/base'), [localBase], { env, stdio: 'inherit' })
  const from = base ?? localBase
  const npmrc = join(homedir(), '.npmrc')
  const revision = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim()
  const label = (name: string, value: string) => `--label=org.opencontainers.image.${name}=${value}`
  buildah(
    'build',
    // The format of OCI has no health check.
    '--format=docker',
    '--layers',
    ...(base === undefined ? ['--pull-never'] : []),
    `--build-arg=BASE=${from}`,
    ...(existsSync(npmrc) ? [`--secret=id=npmrc,src=${npmrc}`] : []),
    label('version', version),
    label('revision', revision),
    label('base.name', from),
    '--ignorefile=.dockerignore',
    '--file=deploy/Dockerfile',
    `--tag=${image}:${version}`,
    `--tag=${image}:latest`,
    '.',
  )
  return { image: `${image}:${version}`, base: from }
}

/** Writes the list of all packages in production with versions, hashes and licences, from the lockfile. */
export const writeSbom = (): { file: string; components: number } => {
  mkdirSync(join(sbomFile, '..'), { recursive: true })
  const flags = ['--sbom-format', 'cyclonedx', '--sbom-spec-version', '1.6', '--sbom-type', 'application', '--prod', '--filter', '@bursar/server']
  execFileSync('pnpm', ['--silent', 'sbom', ...flags, '--out', sbomFile], { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
  const { components } = JSON.parse(readFileSync(sbomFile, 'utf8')) as { components: unknown[] }
  return { file: sbomFile, components: components.length }
}
