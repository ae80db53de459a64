import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

// The stylesheet defines colours as light-dark pairs. Each text colour must be readable on its surfaces in both themes.
const css = readFileSync('web/src/kit/base.css', 'utf8')
const tokens = new Map(
  [...css.matchAll(/--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(([, name, light, dark]) => [name!, [light!, dark!] as const]),
)

const channel = (value: number) => (value <= 0.040_45 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
const luminance = (colour: string) => {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => channel(parseInt(colour.slice(at, at + 2), 16) / 255))
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
/** Returns the WCAG 2 contrast ratio: 1 is none, 21 is black on white. */
const contrast = (one: string, other: string) => {
  const [darker = 0, lighter = 0] = [luminance(one), luminance(other)].toSorted((a, b) => a - b)
  return (lighter + 0.05) / (darker + 0.05)
}

const surfaces = ['page', 'card', 'raised', 'amber', 'good', 'bad']
/** Text colours and the surfaces on which each is used. A colour that is used everywhere lists all surfaces. */
const texts: Record<string, readonly string[]> = {
  text: surfaces,
  soft: surfaces,
  accent: surfaces,
  danger: surfaces,
  'amber-text': surfaces,
  'on-accent': ['accent'],
}
/** Borders of controls and focus rings. */
const controls: Record<string, readonly string[]> = { line: ['page', 'card', 'raised'], accent: surfaces, danger: ['page', 'card'] }

const below = (pairs: Record<string, readonly string[]>, least: number) =>
  Object.entries(pairs).flatMap(([name, grounds]) =>
    grounds.flatMap((ground) =>
      ['light', 'dark'].flatMap((theme, at) => {
        const figure = contrast(tokens.get(name)![at]!, tokens.get(ground)![at]!)
        return figure >= least ? [] : [`${name} on ${ground}, ${theme}: ${figure.toFixed(2)}`]
      }),
    ),
  )

test('keeps text at a contrast of 4.5 to 1 or more on every surface in both themes', () => expect(below(texts, 4.5)).toEqual([]))
test('keeps controls at a contrast of 3 to 1 or more in both themes', () => expect(below(controls, 3)).toEqual([]))
test('defines no colour outside the light-dark pairs', () => {
  const rest = css.replace(/--[a-z-]+: light-dark\([^)]*\)/g, '')
  expect(rest.match(/#[0-9a-f]{3,8}\b(?=[^{]*;)/gi)).toBeNull()
  expect(tokens.size).toBeGreaterThanOrEqual(13)
})
