import type { Page } from './browser.ts'
import { eventually } from './world.ts'

/** A function for the browser that returns the accessible name of an element. */
const nameOf = `(one) => (one.getAttribute('aria-label') ?? one.labels?.[0]?.textContent ?? one.textContent ?? '').trim()`

/** The name of the focused element, and whether a reader can see that it is focused. */
const focusedNow = (page: Page) =>
  page.evaluate<{ name: string; whole: boolean; visible: boolean }>(
    `(() => {
      const one = document.activeElement
      const style = getComputedStyle(one)
      return { name: (${nameOf})(one), whole: one === document.body || one.matches('main'), visible: style.outlineStyle !== 'none' || style.boxShadow !== 'none' }
    })()`,
  )

/** The names of all elements that Tab may reach. Elements behind a dialog are left out. */
const reachable = (page: Page) =>
  page.evaluate<string[]>(
    `(() => {
      const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
      const inDialogs = all.filter((one) => one.closest('dialog[open]'))
      return (inDialogs.length > 0 ? inDialogs : all).filter((one) => !one.disabled && one.tabIndex >= 0).map(${nameOf})
    })()`,
  )

/** The most steps of Tab to any element of a screen. */
const mostSteps = 160

/** Presses Tab until the focused element has this accessible name. Fails if no such element exists, or if its focus is invisible. */
export const tabTo = async (page: Page, name: string | RegExp): Promise<void> => {
  const fits = (one: string) => (typeof name === 'string' ? one === name : name.test(one))
  // The element may appear only after an answer of the server.
  await eventually(`${String(name)} is on ${page.url()}`, async () => (await reachable(page)).some(fits))
  const seen: string[] = []
  for (let at = 0; at < mostSteps; at++) {
    const now = await focusedNow(page)
    if (!now.whole) {
      if (fits(now.name)) {
        if (!now.visible) throw new Error(`The focus on ${now.name} is invisible on ${page.url()}`)
        return
      }
      seen.push(now.name.slice(0, 40))
    }
    await page.keyboard.press('Tab')
  }
  throw new Error(`Tab does not reach ${String(name)} on ${page.url()}. It reaches: ${[...new Set(seen)].join(' | ')}`)
}

/** Moves to an element by Tab and presses Enter. */
export const press = async (page: Page, name: string | RegExp): Promise<void> => {
  await tabTo(page, name)
  await page.keyboard.press('Enter')
}

/** Moves to a field by Tab and replaces its content. */
export const enter = async (page: Page, name: string | RegExp, text: string): Promise<void> => {
  await tabTo(page, name)
  await page.keyboard.press('Control+a')
  await page.keyboard.type(text)
}

/** Moves to a checkbox by Tab and switches it. */
export const toggle = async (page: Page, name: string | RegExp): Promise<void> => {
  await tabTo(page, name)
  await page.keyboard.press('Space')
}

/** Presses keys one after the other, such as `g` and `o`. */
export const keys = async (page: Page, ...names: readonly string[]): Promise<void> => {
  for (const name of names) await page.keyboard.press(name)
}

/** Waits for the heading of a screen. */
export const heading = (page: Page, name: string | RegExp): Promise<void> => page.getByRole('heading', { level: 1, name }).waitFor()

/**
 * Presses `g` and a letter until the screen of that letter is shown. The second key counts for 1.5 seconds, which a busy
 * machine may need between two keys. A person would press them again too.
 */
export const jump = (page: Page, letter: string, screen: string): Promise<true> =>
  eventually(`g ${letter} leads to ${screen}`, async () => {
    await keys(page, 'g', letter)
    return page
      .getByRole('heading', { level: 1, name: screen })
      .waitFor({ timeout: 5000 })
      .then(
        () => true as const,
        () => false as const,
      )
  })
