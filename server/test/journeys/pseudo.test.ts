import { readFileSync } from 'node:fs'
import { locales, pluralCategories, pluralIn } from '@bursar/views'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openBrowser, type Browser } from '../harness/browser.ts'
import { toPseudo } from '../harness/pseudo.ts'
import { openWorld, type World } from '../harness/world.ts'
import { clippedIn } from './walk/clipping.ts'
import { walkThrough } from './walk/flows.ts'
import { openMirror, openRecorder } from './walk/recorder.ts'

// Every page with longer and accented texts, on a phone and on a wide screen. No text may be cut off.
describe('the pseudo-language', () => {
  test('makes every text longer, marks its ends, and leaves parts that are marked already', () => {
    const texts = toPseudo({ pay: 'Pay', now: (price: string) => `Pay ${price} now`, pair: ['In', '.'], empty: '' })
    expect(texts.pay).toBe('⟦Páåy ñø⟧')
    expect(texts.now('⟦two péöóplë⟧')).toBe('⟦Páåy ⟦two péöóplë⟧ nóöw⟧')
    expect([texts.pair, texts.empty]).toEqual([['⟦Íïn ñø⟧', '⟦.⟧'], ''])
  })

  test('has one form for each category that Intl.PluralRules has for a language', () => {
    for (const locale of locales)
      expect([...pluralCategories[locale]].toSorted()).toEqual(new Intl.PluralRules(locale).resolvedOptions().pluralCategories.toSorted())
    const seats = { one: 'seat', other: 'seats' }
    expect([0, 1, 1.5, 2, 21].map((count) => pluralIn('en')(count, seats))).toEqual(['seats', 'seat', 'seats', 'seats', 'seats'])
  })
})

describe('pages in the pseudo-language', () => {
  const recorder = openRecorder()
  let world: World
  let browser: Browser
  beforeAll(async () => {
    ;[world, browser] = await Promise.all([openWorld({ browser: true, rendering: recorder.rendering }), openBrowser()])
  })
  afterAll(async () => {
    await browser.close()
    await world.close()
  })

  test('cut off no text and do not scroll sideways, at 390 and 1280 pixels', async () => {
    const mirror = await openMirror(browser, world, recorder)
    const kinds = new Set<string>()
    const found: string[] = []
    await walkThrough(world, browser, async (name, policy, change = (view) => view) => {
      const { view, frame } = recorder.last()
      kinds.add(change(view).kind)
      await mirror.show({ view: change(view), frame }, 'pseudo', policy)
      expect(await mirror.page.locator('body').innerText()).toContain('⟦')
      for (const width of [1280, 390]) {
        await mirror.page.setViewportSize({ width, height: 900 })
        found.push(...(await clippedIn(mirror.page)).map((one) => `${name}, ${width} px: ${one}`))
      }
    })
    expect(found).toEqual([])
    // The walk reaches each kind of page that exists, except the dashboard, pages for developers, and the page of a payment at another site.
    const elsewhere = ['away', 'dashboard', 'dashboard-closed', 'mail-gallery', 'mailbox']
    const known = new Set([...readFileSync('web/src/index.tsx', 'utf8').matchAll(/case '([a-z-]+)':/g)].map(([, kind]) => kind))
    expect(new Set<string | undefined>([...kinds, ...elsewhere])).toEqual(known)
    await mirror.close()
  })
})
