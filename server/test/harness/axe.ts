import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Returns every violation that axe finds on the page. Loads axe only once into a page, because that takes as long as a check. */
export const accessibilityOf = async (page: Page): Promise<string[]> => {
  if (!(await page.evaluate<boolean>("typeof axe === 'object'"))) await page.evaluate(`${axe}; 0`)
  return page.evaluate(
    "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((found) => found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' | ')))",
  )
}
