/** The languages of mails and documents. */
export type Language = 'en' | 'de'

/** Returns the language in which a person is addressed: their own, or otherwise that of their country. */
export const languageOf = (locale: string | null, country: string | null): Language => {
  if (locale !== null) return /^de\b/i.test(locale) ? 'de' : 'en'
  return country === 'DE' || country === 'AT' || country === 'LI' ? 'de' : 'en'
}
