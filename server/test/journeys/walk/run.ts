import { mkdirSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { openBrowser } from '../../harness/browser.ts'
import { beginRun, endRun } from '../../harness/runs.ts'
import { openWorld } from '../../harness/world.ts'
import { accessibilityOf } from '../../harness/axe.ts'
import { clippedIn } from './clipping.ts'
import { walkThrough } from './flows.ts'
import { openMirror, openRecorder, type Language } from './recorder.ts'

/**
 * Walks through every page as buyer, owner, member and person with an account. Takes a picture of each page in two
 * languages, widths and themes, and checks each with axe, against the security policy and for texts that are cut off.
 * `--folder F` chooses the folder of the pictures (default: .scratch/walk-pictures). `--only P` takes the pages whose name contains P. `--flow account`, `buyer`, `team` or `debtor` takes one part of the walk. `--quick` takes two
 * pictures of each page instead of eight.
 */
const { values } = parseArgs({
  options: {
    folder: { type: 'string', default: '.scratch/walk-pictures' },
    only: { type: 'string', default: '' },
    flow: { type: 'string', multiple: true, default: [] },
    quick: { type: 'boolean', default: false },
  },
})
const languages: readonly Language[] = ['en', 'de']
const widths = [1280, 390]
/** With `--quick`: English on a wide light screen, and German on a dark phone. */
const isQuick = (language: Language, width: number, theme: 'light' | 'dark') =>
  language === 'en' ? width === 1280 && theme === 'light' : width === 390 && theme === 'dark'

await beginRun('walk')
mkdirSync(values.folder, { recursive: true })
const recorder = openRecorder()
const browser = await openBrowser()
const world = await openWorld({ browser: true, rendering: recorder.rendering })
let pictures = 0
const findings: string[] = []
try {
  const mirror = await openMirror(browser, world, recorder)
  await walkThrough(
    world,
    browser,
    async (name, policy, change = (view) => view) => {
      if (!name.includes(values.only)) return
      const { view, frame } = recorder.last()
      for (const language of languages) {
        await mirror.show({ view: change(view), frame }, language, policy)
        for (const width of widths)
          for (const theme of ['light', 'dark'] as const) {
            if (values.quick && !isQuick(language, width, theme)) continue
            const look = `${name}-${language}-${width}-${theme}`
            await mirror.page.setViewportSize({ width, height: width > 1000 ? 900 : 844 })
            await mirror.page.emulateMedia({ colorScheme: theme })
            await mirror.page.screenshot({ path: `${values.folder}/${look}.png`, fullPage: true })
            pictures++
            findings.push(...(await accessibilityOf(mirror.page)).map((one) => `axe ${look}: ${one}`))
          }
        for (const width of widths) {
          await mirror.page.setViewportSize({ width, height: 900 })
          findings.push(...(await clippedIn(mirror.page)).map((one) => `text ${name}-${language}-${width}: ${one}`))
        }
      }
      findings.push(...mirror.violations.splice(0).map((one) => `policy ${name}: ${one}`))
      console.log(name)
    },
    values.flow,
  )
  await mirror.close()
} finally {
  await browser.close()
  await world.close()
  await endRun()
}
for (const one of findings) console.log(one)
const count = (kind: string) => findings.filter((one) => one.startsWith(kind)).length
console.log(`walk: ${pictures} pictures in ${values.folder} · axe ${count('axe')} · policy ${count('policy')} · texts cut off ${count('text')}`)
process.exitCode = findings.length === 0 ? 0 : 1
