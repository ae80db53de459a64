import { extractText, getDocumentProxy, getMeta } from 'unpdf'

/** Reads a PDF with an independent library: the text of its pages, and its metadata. */
export const readPaper = async (bytes: Uint8Array) => {
  const pdf = await getDocumentProxy(new Uint8Array(bytes))
  const { text, totalPages } = await extractText(pdf, { mergePages: false })
  const { info } = await getMeta(pdf)
  return {
    pages: text.map((page) => page.replaceAll('\u00a0', ' ')),
    count: totalPages,
    info: info as Record<string, unknown>,
    text: text.join('\n').replaceAll('\u00a0', ' '),
  }
}

/** Returns every text of a PDF with its page and its place in points. */
export const placesIn = async (bytes: Uint8Array): Promise<{ page: number; text: string; x: number; y: number; width: number }[]> => {
  const pdf = await getDocumentProxy(new Uint8Array(bytes))
  const places = []
  for (let page = 1; page <= pdf.numPages; page++) {
    const { items } = await (await pdf.getPage(page)).getTextContent()
    for (const item of items)
      if ('str' in item && item.str.trim() !== '') {
        const [, , , , x, y] = item.transform as number[]
        places.push({ page, text: item.str, x: Math.round(x! * 100) / 100, y: Math.round(y! * 100) / 100, width: item.width })
      }
  }
  return places
}
