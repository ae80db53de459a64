import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { create, type Font } from 'fontkit'

const { resolve } = createRequire(import.meta.url)
const beside = (library: string, path: string) => join(dirname(resolve(library)), path)

/** Font files in order of preference: most alphabets, then Chinese and Japanese, then Korean. Each letter uses the first font that has it. */
const files = {
  regular: () => resolve('@expo-google-fonts/noto-sans/400Regular/NotoSans_400Regular.ttf'),
  bold: () => resolve('@expo-google-fonts/noto-sans/600SemiBold/NotoSans_600SemiBold.ttf'),
  han: () => beside('@embedpdf/fonts-sc', '../fonts/NotoSansHans-Regular.otf'),
  hangul: () => beside('@embedpdf/fonts-kr', '../fonts/NotoSansKR-Regular.otf'),
} as const
export type Face = keyof typeof files

export const fallbacks = { regular: ['regular', 'han', 'hangul'], bold: ['bold', 'han', 'hangul'] } as const satisfies Record<string, readonly Face[]>
export type Weight = keyof typeof fallbacks

const opened = new Map<Face, Font>()

/** Returns a font. Each font is loaded once, and only if needed, because parsing its tables takes far longer than rendering a document. */
export const faceOf = (face: Face): Font => {
  const known = opened.get(face)
  if (known) return known
  // The cast is safe, because each file contains a single font and not a font collection.
  const font = plainly(create(readFileSync(files[face]())) as Font)
  opened.set(face, font)
  return font
}

/** Matches text whose letters have the same shape regardless of their neighbours, unlike Arabic or Devanagari. */
const simple = /^[\u0020-\u058f\u1e00-\u20cf\u2100-\u2bff\u3000-\ud7a3\uf900-\ufaff\uff00-\uffef]*$/

/**
 * Returns the font with a faster layout, letter by letter, for text in the `simple` scripts. Ligatures and kerning take
 * most of the rendering time and make no visible difference. Other scripts are laid out in full.
 */
const plainly = (font: Font): Font =>
  Object.create(font, {
    layout: { value: (text: string, ...rest: unknown[]) => (simple.test(text) ? setPlainly(font, text) : font.layout(text, ...(rest as []))) },
  }) as Font

const setPlainly = (font: Font, text: string) => {
  const glyphs = font.glyphsForString(text)
  const positions = glyphs.map(({ advanceWidth }) => ({ xAdvance: advanceWidth, yAdvance: 0, xOffset: 0, yOffset: 0 }))
  return { glyphs, positions, advanceWidth: positions.reduce((sum, { xAdvance }) => sum + xAdvance, 0) }
}
