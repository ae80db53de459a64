import { readFileSync } from 'node:fs'
import { accentOf, contrastOf, surfaces as surfaceColours, type Scheme } from '@bursar/views'
import fc from 'fast-check'
import { expect, test } from 'vitest'

// One stylesheet defines all colours as light-dark pairs. Each text colour must be readable on its surfaces in both themes.
const css = readFileSync('web/src/kit/tokens.css', 'utf8')
const others = ['web/src/kit/base.css', ...['base', 'parts', 'over', 'table'].map((name) => `web/dashboard/src/styles/${name}.css`)].map((file) =>
  readFileSync(file, 'utf8'),
)
const tokens = new Map(
  [...css.matchAll(/--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(([, name, light, dark]) => [name!, [light!, dark!] as const]),
)

const surfaces = ['page', 'card', 'raised', 'amber', 'good', 'bad']
/** Text colours and the surfaces on which each is used. A colour that is used everywhere lists all surfaces. */
const texts: Record<string, readonly string[]> = {
  text: surfaces,
  soft: surfaces,
  accent: surfaces,
  danger: surfaces,
  'amber-text': surfaces,
  'good-text': surfaces,
  'on-button': ['button'],
}
/** Borders of controls and focus rings. */
const controls: Record<string, readonly string[]> = { line: ['page', 'card', 'raised'], accent: surfaces, button: ['page', 'card'], danger: ['page', 'card'] }

const below = (pairs: Record<string, readonly string[]>, least: number) =>
  Object.entries(pairs).flatMap(([name, grounds]) =>
    grounds.flatMap((ground) =>
      ['light', 'dark'].flatMap((theme, at) => {
        const figure = contrastOf(tokens.get(name)![at]!, tokens.get(ground)![at]!)
        return figure >= least ? [] : [`${name} on ${ground}, ${theme}: ${figure.toFixed(2)}`]
      }),
    ),
  )

test('keeps text at a contrast of 4.5 to 1 or more on every surface in both themes', () => expect(below(texts, 4.5)).toEqual([]))
test('keeps controls at a contrast of 3 to 1 or more in both themes', () => expect(below(controls, 3)).toEqual([]))
test('defines no colour outside the light-dark pairs', () => {
  const rest = css.replace(/--[a-z-]+: light-dark\([^)]*\)/g, '')
  for (const sheet of [rest, ...others]) expect(sheet.match(/#[0-9a-f]{3,8}\b(?=[^{]*;)/gi)).toBeNull()
  expect(tokens.size).toBeGreaterThanOrEqual(13)
})

const colour = fc.integer({ min: 0, max: 0xffffff }).map((value) => `#${value.toString(16).padStart(6, '0')}`)

test('knows the surfaces of the stylesheet', () => {
  for (const [at, theme] of (['light', 'dark'] as const).entries()) expect(surfaceColours[theme]).toEqual(surfaces.map((name) => tokens.get(name)![at]))
})
test('corrects any accent colour until texts and buttons are readable in both themes', () =>
  fc.assert(
    fc.property(colour, fc.constantFrom<Scheme>('light', 'dark'), (hex, scheme) => {
      const { text, fill, on_fill } = accentOf(hex, scheme)
      for (const surface of surfaceColours[scheme]) expect(contrastOf(text, surface)).toBeGreaterThanOrEqual(4.5)
      for (const surface of surfaceColours[scheme].slice(0, 2)) expect(contrastOf(fill, surface)).toBeGreaterThanOrEqual(3)
      expect(contrastOf(on_fill, fill)).toBeGreaterThanOrEqual(4.5)
    }),
    { numRuns: 5000 },
  ))
test('keeps an accent colour that is readable as it is', () => {
  expect(accentOf('#1f4d3f', 'light')).toEqual({ text: '#1f4d3f', fill: '#1f4d3f', on_fill: '#ffffff' })
  expect(accentOf('#ffd166', 'dark')).toEqual({ text: '#ffd166', fill: '#ffd166', on_fill: '#000000' })
})
