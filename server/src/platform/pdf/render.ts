import Pdf from 'pdfkit'
import type { Pair, Sheet, Table } from '../../kernel/layout.ts'
import { printable, type Printable } from './logo.ts'
import { leading, openType, type Style, type Type } from './type.ts'

const page = { width: 595.28, height: 841.89, side: 54, top: 54, bottom: 72 }
const inner = page.width - 2 * page.side
const grey = '#5f6368'
const rule = '#d5d7da'
const body: Style = { size: 9.5 }
const small: Style = { size: 8.5, color: grey }
const label: Style = { size: 8.5, color: grey }
/** Maximum size of a logo in points. It is not higher than the heading, so it moves nothing. Small logos keep 96 pixels for an inch. */
const logoBox = { width: 150, height: 40, of_pixel: 0.75, gap: 16 }
/** Maximum width of one link in points. Longer texts are cut, so that all links fit on one line. */
const longestLink = 170

/**
 * Renders a document as A4 PDF, with language, title and structure tags for screen readers. The same document always
 * gives the same bytes: nothing depends on a clock, on randomness or on the machine.
 */
export const renderSheet = (sheet: Sheet): Promise<Buffer> => {
  const doc = new Pdf({
    size: 'A4',
    margin: 0,
    bufferPages: true,
    pdfVersion: '1.7',
    lang: sheet.language,
    displayTitle: true,
    tagged: true,
    info: { Title: sheet.title, Author: sheet.author, Producer: 'Bursar', Creator: 'Bursar', CreationDate: sheet.dated },
    // Without this setting, pdfkit loads a default font, which we do not use.
    font: null as unknown as string,
  })
  const chunks: Buffer[] = []
  const done = new Promise<Buffer>((resolve, reject) => {
    doc.on('data', (chunk: Buffer) => chunks.push(chunk))
    doc.on('end', () => resolve(Buffer.concat(chunks)))
    doc.on('error', reject)
  })
  compose(doc, sheet)
  doc.end()
  return done
}

type Doc = InstanceType<typeof Pdf>
type Part = PDFKit.PDFStructureElement

const compose = (doc: Doc, sheet: Sheet): void => {
  const type = openType(doc)
  const root = doc.struct('Document')
  doc.addStructure(root)
  let y = page.top

  /** Starts a new page if the given height does not fit on this one. */
  const need = (height: number): boolean => {
    if (y + height <= page.height - page.bottom) return false
    doc.addPage()
    y = page.top
    return true
  }
  const mark = (parent: Part, kind: string, work: () => void) => parent.add(doc.struct(kind, {}, work))
  const paint = (work: () => void) => {
    doc.markContent('Artifact', { type: 'Layout' })
    work()
    doc.endMarkedContent()
  }
  const line = (color: string, from = page.side, to = page.width - page.side) =>
    paint(() => doc.moveTo(from, y).lineTo(to, y).lineWidth(0.6).strokeColor(color).stroke())
  const heightOf = (lines: readonly string[], { size }: Style) => lines.length * size * leading
  /** Writes a paragraph and returns its height. */
  const write = (parent: Part, kind: string, text: string, x: number, top: number, width: number, style: Style & { align?: 'left' | 'right' }): number => {
    const lines = type.wrap(text, width, style)
    mark(parent, kind, () => lines.forEach((one, at) => type.draw(one, x, top + at * style.size * leading, width, style)))
    return heightOf(lines, style)
  }

  const { accent } = sheet
  if (accent !== null)
    paint(() =>
      doc
        .rect(page.side, page.top - 22, inner, 3)
        .fillColor(accent)
        .fill(),
    )
  const heading: Style = { weight: 'bold', size: 22 }
  y += write(root, 'H1', sheet.heading, page.side, y, inner - logo(), heading) + 10
  y += pairs(sheet.facts)
  y += 18

  const column = inner / sheet.parties.length
  const heights = sheet.parties.map(({ label: title, lines }, at) => {
    const x = page.side + at * column
    let top = y + write(root, 'H2', title, x, y, column - 16, label) + 2
    for (const [place, text] of lines.entries()) top += write(root, 'P', text, x, top, column - 16, place === 0 ? { ...body, weight: 'bold' } : body)
    return top - y
  })
  y += Math.max(...heights) + 22

  y += write(root, 'P', sheet.notice, page.side, y, inner, { weight: 'bold', size: 14 }) + 14
  table(sheet.lines, body, page.side, inner)
  totals()
  for (const one of sheet.tables) {
    need(60)
    y += 16
    y += write(root, 'H2', one.heading, page.side, y, inner, { weight: 'bold', size: 9.5 }) + 4
    table(one, small, page.side, inner)
  }
  if (sheet.notes.length > 0) y += 14
  for (const note of sheet.notes) {
    need(heightOf(type.wrap(note, inner, body), body))
    y += write(root, 'P', note, page.side, y, inner, body) + 3
  }
  links()
  root.end()
  footers(doc, type, sheet)

  /** Draws the logo at the right edge, beside the heading. Returns the width that it takes from the heading. */
  function logo(): number {
    const picture = sheet.logo === null ? undefined : printable(sheet.logo)
    if (!picture) return 0
    const scale = Math.min(logoBox.width / picture.width, logoBox.height / picture.height, logoBox.of_pixel)
    const [width, height] = [picture.width * scale, picture.height * scale]
    const left = page.side + inner - width
    const figure = doc.struct('Figure', { alt: sheet.author, bbox: [left, page.top, left + width, page.top + height] } as never, () =>
      doc.image(embedded(picture) as never, left, page.top, { width, height }),
    )
    root.add(figure)
    return width + logoBox.gap
  }

  /** Draws the links between the content and the footer of the last page. The margin has room for one line. */
  function links(): void {
    let x = page.side
    const top = page.height - page.bottom + 7
    for (const { text, url } of sheet.links) {
      const [shown = '', more] = type.wrap(text, longestLink, small)
      const cut = more === undefined ? shown : `${shown.slice(0, -1)}…`
      const width = type.widthOf(cut, small)
      const link = doc.struct('Link', { alt: url })
      root.add(link)
      const left = x
      link.add(() => type.draw(cut, left, top, width, small))
      doc.link(left, top, width, small.size * leading, url, { structParent: link } as never)
      link.end()
      x += width + 14
    }
  }

  function pairs(all: readonly Pair[]): number {
    const wide = Math.min(inner / 2, Math.max(...all.map((pair) => type.widthOf(pair.label, body))) + 18)
    let top = y
    for (const { label: title, value } of all) {
      const lines = type.wrap(value, inner - wide, body)
      mark(root, 'P', () => {
        type.draw(title, page.side, top, wide, { ...body, color: grey })
        lines.forEach((one, at) => type.draw(one, page.side + wide, top + at * body.size * leading, inner - wide, body))
      })
      top += heightOf(lines, body) + 1
    }
    return top - y
  }

  /** Draws a table. Rows are not split across pages, and every page repeats the column names. */
  function table({ columns, rows }: Table, style: Style, left: number, width: number): void {
    const whole = columns.reduce((sum, { share }) => sum + share, 0)
    const gap = 10
    let x = left
    const places = columns.map(({ share, align }) => {
      const place = { x, width: (share / whole) * width - gap, align }
      x += (share / whole) * width
      return place
    })
    // The last column has no gap after it, so it extends to the edge of the table.
    places.at(-1)!.width += gap
    const element = doc.struct('Table')
    root.add(element)
    const head = () => {
      const row = doc.struct('TR')
      element.add(row)
      const high = columns.map((one, at) => write(row, 'TH', one.label, places[at]!.x, y, places[at]!.width, { ...label, align: places[at]!.align }))
      row.end()
      y += Math.max(...high) + 3
      line(rule)
      y += 5
    }
    need(50)
    head()
    for (const { cells, below = [] } of rows) {
      const texts = cells.map((text, at) => type.wrap(text, places[at]!.width, style))
      const notes = below.flatMap((text) => type.wrap(text, places[0]!.width, small))
      const cellHeight = (at: number) => heightOf(texts[at]!, style) + (at === 0 ? heightOf(notes, small) : 0)
      const height = Math.max(...cells.map((_, at) => cellHeight(at)))
      if (need(height + 8)) head()
      const row = doc.struct('TR')
      element.add(row)
      for (const [at, lines] of texts.entries()) {
        const place = places[at]!
        mark(row, 'TD', () => {
          lines.forEach((one, turn) => type.draw(one, place.x, y + turn * style.size * leading, place.width, { ...style, align: place.align }))
          if (at === 0) notes.forEach((one, turn) => type.draw(one, place.x, y + heightOf(lines, style) + turn * small.size * leading, place.width, small))
        })
      }
      row.end()
      y += height + 4
      line(rule)
      y += 4
    }
    element.end()
  }

  function totals(): void {
    const left = page.side + inner * 0.45
    const width = inner * 0.55
    const figures = width * 0.38
    const styleOf = ({ strong = false }: Sheet['totals'][number]): Style => ({ ...body, weight: strong ? 'bold' : 'regular' })
    const wrapped = sheet.totals.map((pair) => type.wrap(pair.label, width - figures - 8, styleOf(pair)))
    need(wrapped.reduce((sum, lines) => sum + heightOf(lines, body) + 4, 8))
    y += 4
    for (const [at, pair] of sheet.totals.entries()) {
      const style = styleOf(pair)
      if (pair.strong) {
        line(rule, left)
        y += 4
      }
      mark(root, 'P', () => {
        wrapped[at]!.forEach((one, turn) => type.draw(one, left, y + turn * body.size * leading, width - figures, style))
        type.draw(pair.value, left + width - figures, y, figures, { ...style, align: 'right' })
      })
      y += heightOf(wrapped[at]!, body) + 3
    }
  }
}

/** Returns a picture in the form in which pdfkit draws it. */
const embedded = ({ width, height, color, filter, data }: Printable) => ({
  label: 'Logo',
  width,
  height,
  obj: null as unknown,
  embed(doc: Doc) {
    const object = doc.ref({ Type: 'XObject', Subtype: 'Image', BitsPerComponent: 8, Width: width, Height: height, ColorSpace: color, Filter: filter })
    object.end(data)
    this.obj = object
  },
})

/** Draws the footer of every page: the seller, and the page number if there are several pages. */
const footers = (doc: Doc, type: Type, { footer, paging }: Sheet): void => {
  const { count } = doc.bufferedPageRange()
  for (let at = 0; at < count; at++) {
    doc.switchToPage(at)
    doc.markContent('Artifact', { type: 'Pagination' })
    const top = page.height - page.bottom + 24
    const lines = type.wrap(footer, inner * 0.78, small).slice(0, 3)
    lines.forEach((one, turn) => type.draw(one, page.side, top + turn * small.size * leading, inner * 0.78, small))
    if (count > 1) type.draw(paging.replace('{page}', String(at + 1)).replace('{pages}', String(count)), page.side, top, inner, { ...small, align: 'right' })
    doc.endMarkedContent()
  }
}
