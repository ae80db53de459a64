import type { Locale } from './frame.ts'

/** The plural categories of each language, as `Intl.PluralRules` names them. A text needs a form for each of them. */
export const pluralCategories = { en: ['one', 'other'], de: ['one', 'other'] } as const satisfies { readonly [L in Locale]: readonly Intl.LDMLPluralRule[] }
export type PluralForms<L extends Locale> = { readonly [C in (typeof pluralCategories)[L][number]]: string } & { readonly other: string }

/** Returns a function that chooses the form which the language uses with a number. */
export const pluralIn = <L extends Locale>(locale: L) => {
  const rules = new Intl.PluralRules(locale)
  return (count: number, forms: PluralForms<L>): string => {
    const known: { readonly [C in Intl.LDMLPluralRule]?: string } & { readonly other: string } = forms
    return known[rules.select(count)] ?? known.other
  }
}
