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
