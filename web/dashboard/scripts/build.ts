import { createHash } from 'node:crypto'
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

/** Builds the dashboard into `web/dist/client`. Does nothing if no source has changed since the last build. */
const root = join(import.meta.dirname, '../../..')
const here = join(import.meta.dirname, '..')
const target = join(root, 'web/dist/client')
const stamp = join(target, 'sources')

const sources = [
  ...globSync('{src,scripts}/**/*.{ts,tsx,css}', { cwd: here }).map((file) => join(here, file)),
  ...globSync('contract/src/**/*.ts', { cwd: root, exclude: (file) => file.endsWith('.test.ts') }).map((file) => join(root, file)),
  ...globSync('{web/src/kit/{tokens,fonts}.css,views/src/*.ts,web/dashboard/package.json}', { cwd: root }).map((file) => join(root, file)),
]
const digest = createHash('sha256')
for (const file of sources.toSorted()) digest.update(relative(root, file)).update('\0').update(readFileSync(file)).update('\0')
const current = digest.digest('hex')

if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== current) {
  // A test runner sets `test`. React's development version would then be built, which is larger and slower.
  process.env.NODE_ENV = 'production'
  const [{ build }, { default: react }, { contractPlugin }] = await Promise.all([import('vite'), import('@vitejs/plugin-react'), import('./contract.ts')])
  rmSync(target, { recursive: true, force: true })
  await build({
    root: here,
    configFile: false,
    logLevel: 'error',
    base: '/assets/dashboard/',
    publicDir: false,
    plugins: [contractPlugin(), react()],
    build: {
      outDir: target,
      emptyOutDir: true,
      assetsDir: '',
      target: 'es2023',
      manifest: 'manifest.json',
      cssCodeSplit: false,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
      rolldownOptions: {
        input: join(here, 'src/main.tsx'),
        output: {
          hashCharacters: 'base36',
          // One chunk for everything that each list needs. It compresses better than many small ones.
          codeSplitting: {
            groups: [
              {
                name: 'base',
                test: /node_modules\/(react|react-dom|scheduler|@tanstack\/[\w-]+)\/|\/src\/(app|kit\/(bits|data-table|dialog|filters|format|layout|states|toast|words))[./]/,
              },
            ],
          },
        },
      },
    },
  })
  mkdirSync(target, { recursive: true })
  for (const file of globSync('*.js', { cwd: target })) {
    const text = readFileSync(join(target, file))
    writeFileSync(join(target, `${file}.br`), brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }))
    writeFileSync(join(target, `${file}.gz`), gzipSync(text, { level: 9 }))
  }
  writeFileSync(stamp, current)
}
