import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { tryImage } from '../../server/test/journeys/image/try.ts'
import { buildah, buildImage, sizeOf, writeSbom } from './build.ts'

/**
 * Builds the image and its list of packages with buildah. `--base` names another base than the local one of debootstrap,
 * `--install` installs buildah and debootstrap if they are missing. `--try` also starts the image, and buys with it.
 */
const { values } = parseArgs({ options: { base: { type: 'string' }, install: { type: 'boolean' }, try: { type: 'boolean' } } })
const { version } = JSON.parse(readFileSync('server/package.json', 'utf8')) as { version: string }
const megabytes = (bytes: number) => `${(bytes / 1_000_000).toFixed(0)} MB`
try {
  const began = performance.now()
  const { image, base } = buildImage({ ...values, version })
  const [whole, below] = [sizeOf(image), sizeOf(base)]
  console.log(`${image}: built in ${((performance.now() - began) / 1000).toFixed(0)} s, ${megabytes(whole)}, ${megabytes(whole - below)} above its base`)
  const { file, components } = writeSbom()
  console.log(`${file}: ${components} packages`)
  if (values.try) await tryImage(image, buildah)
} catch (error) {
  const { message, stderr } = error as Error & { stderr?: string }
  console.error(`image: ${message}${stderr ? `\n${stderr.slice(-4000)}` : ''}`)
  process.exitCode = 1
}
