import type Pdf from 'pdfkit'
import { faceOf, fallbacks, type Face, type Weight } from './fonts.ts'

export interface Style {
  readonly weight?: Weight
  readonly size: number
  readonly color?: string
}

interface Run {
  readonly face: Face
  readonly text: string
}

export const leading = 1.4

/** Sets text of any script, each letter in the first font that has it. A letter without a font becomes a box. */
export const openType = (doc: InstanceType<typeof Pdf>) => {
  const opened = new Set<Face>()
  const use = (face: Face) => {
    // pdfkit accepts an opened font, although its types do not say so.
    if (!opened.has(face)) doc.registerFont(face, faceOf(face) as unknown as Buffer)
    opened.add(face)
    doc.font(face)
  }
  const known = new Map<string, Face>()
  const faceFor = (letter: string, weight: Weight): Face => {
    const key = `${weight}${letter}`
    const found = known.get(key)
    if (found) return found
    const [first, ...others] = fallbacks[weight]
    const has = (face: Face) => faceOf(face).hasGlyphForCodePoint(letter.codePointAt(0)!)
    const face = has(first) ? first : (others.find(has) ?? first)
    known.set(key, face)
    return face
  }

  const runsOf = (text: string, weight: Weight): Run[] => {
    const runs: { face: Face; text: string }[] = []
    for (const letter of text) {
      const face = faceFor(letter, weight)
      const last = runs.at(-1)
      if (last?.face === face) last.text += letter
      else runs.push({ face, text: letter })
    }
    return runs
  }

  const widthOf = (text: string, { weight = 'regular', size }: Style): number => {
    let width = 0
    for (const run of runsOf(text, weight)) {
      use(run.face)
      width += doc.fontSize(size).widthOfString(run.text)
    }
    return width
  }

  /** Wraps text into lines that fit. Breaks between words, and within words that are too long or written without spaces. */
  const wrap = (text: string, width: number, style: Style): string[] => {
    if (widthOf(text, style) <= width) return [text]
    const lines: string[] = []
    let line = ''
    for (const word of text.split(/(?<= )|(?<=[\u3000-\u9fff\uf900-\ufaff])/u)) {
      if (line !== '' && widthOf((line + word).trimEnd(), style) > width) {
        lines.push(line.trimEnd())
        line = ''
      }
      for (const letter of word) {
        if (line !== '' && widthOf((line + letter).trimEnd(), style) > width) {
          lines.push(line)
          line = ''
        }
        line += letter
      }
    }
    return [...lines, line.trimEnd()]
  }

  /** Draws one line with a common baseline for all fonts. */
  const draw = (text: string, x: number, top: number, width: number, style: Style & { readonly align?: 'left' | 'right' }): void => {
    const { weight = 'regular', size, color = '#111111', align = 'left' } = style
    let at = align === 'right' ? x + width - widthOf(text, style) : x
    const baseline = top + size * 1.05
    for (const run of runsOf(text, weight)) {
      use(run.face)
      doc.fontSize(size).fillColor(color).text(run.text, at, baseline, { lineBreak: false, baseline: 'alphabetic' })
      at += doc.widthOfString(run.text)
    }
  }
  return { wrap, draw, widthOf }
}
export type Type = ReturnType<typeof openType>
