/** The ends of each text in the pseudo-language. A text that is cut off has lost its end. */
const [begin, end] = ['⟦', '⟧']
const accents: Readonly<Record<string, string>> = { a: 'áå', e: 'éë', i: 'íï', o: 'óö', u: 'úü', A: 'Åá', E: 'Éë', I: 'Íï', O: 'Öó', U: 'Üú' }

/** Doubles each vowel with accents. The text becomes about a third longer, as a translation may. Short texts grow more. */
const stretch = (text: string): string => text.replaceAll(/[aeiou]/gi, (vowel) => accents[vowel]!)

/** Rewrites a text. Parts that were rewritten before, such as arguments of other texts, stay as they are. */
const rewrite = (text: string): string => {
  if (text.trim() === '') return text
  let depth = 0
  let rewritten = ''
  let plain = ''
  const flush = () => {
    rewritten += stretch(plain)
    plain = ''
  }
  for (const letter of text) {
    if (letter === begin && depth++ === 0) flush()
    if (depth > 0) rewritten += letter
    else plain += letter
    if (letter === end) depth--
  }
  flush()
  return `${begin}${rewritten}${text.length < 12 && /[a-z]/i.test(text) ? ' ñø' : ''}${end}`
}

const known = new WeakMap<object, unknown>()

/** Translates a record of English texts to a language that exists only in tests: every text is longer, accented and marked at its ends. */
export const toPseudo = <T>(english: T): T => {
  if (typeof english === 'string') return rewrite(english) as T
  if (typeof english === 'function')
    return ((...given: unknown[]): unknown => toPseudo((english as unknown as (...given: unknown[]) => unknown)(...given))) as T
  if (typeof english !== 'object' || english === null) return english
  const made = known.get(english)
  if (made !== undefined) return made as T
  const translated = Array.isArray(english)
    ? english.map((one: unknown) => toPseudo(one))
    : Object.fromEntries(Object.entries(english).map(([key, one]) => [key, toPseudo<unknown>(one)]))
  known.set(english, translated)
  return translated as T
}
