/** The first three digits of the ZIP codes of each state: single prefixes and ranges. Territories and military mail have none here. */
const prefixes: Readonly<Record<string, string>> = {
  AK: '995-999',
  AL: '350-352 354-369',
  AR: '716-729',
  AZ: '850-853 855-857 859-860 863-865',
  CA: '900-908 910-928 930-961',
  CO: '800-816',
  CT: '060-069',
  DC: '200 202-205 569',
  DE: '197-199',
  FL: '320-339 341-342 344 346-347 349',
  GA: '300-319 398-399',
  HI: '967-968',
  IA: '500-516 520-528',
  ID: '832-838',
  IL: '600-620 622-629',
  IN: '460-479',
  KS: '660-662 664-679',
  KY: '400-427',
  LA: '700-701 703-708 710-714',
  MA: '010-027 055',
  MD: '206-212 214-219',
  ME: '039-049',
  MI: '480-499',
  MN: '550-551 553-567',
  MO: '630-631 633-641 644-658',
  MS: '386-397',
  MT: '590-599',
  NC: '270-289',
  ND: '580-588',
  NE: '680-681 683-693',
  NH: '030-038',
  NJ: '070-089',
  NM: '870-871 873-875 877-884',
  NV: '889-891 893-895 897-898',
  NY: '005 100-149',
  OH: '430-459',
  OK: '730-731 734-741 743-749',
  OR: '970-979',
  PA: '150-196',
  RI: '028-029',
  SC: '290-299',
  SD: '570-577',
  TN: '370-385',
  TX: '733 750-770 772-799 885',
  UT: '840-847',
  VA: '201 220-246',
  VT: '050-054 056-059',
  WA: '980-986 988-994',
  WI: '530-532 534-535 537-549',
  WV: '247-268',
  WY: '820-831',
}

/** Prefixes with ZIP codes that reach into a second state, and that state. */
const shared: Readonly<Record<string, string>> = {
  '028': 'MA',
  '063': 'NY',
  '422': 'TN',
  '592': 'ND',
  '636': 'IL',
  '717': 'LA',
  '739': 'TX',
  '811': 'NM',
  '834': 'WY',
  '845': 'AZ',
  '860': 'UT',
  '865': 'NM',
  '880': 'TX',
  '894': 'CA',
  '976': 'CA',
}

const byPrefix = new Map(
  Object.entries(prefixes).flatMap(([state, text]) =>
    text.split(' ').flatMap((range) => {
      const [first, last = first] = range.split('-').map(Number) as [number, number?]
      return Array.from({ length: last - first + 1 }, (_, at): [string, string] => [String(first + at).padStart(3, '0'), state])
    }),
  ),
)

/** True for a ZIP code of five digits, also with the four digits of the delivery route. */
export const isZipCode = (text: string): boolean => /^\d{5}([- ]?\d{4})?$/.test(text.trim())

/**
 * Returns the states to which a ZIP code can belong, in the form `US-NY`: one, or two if its prefix crosses a state line.
 * Returns none if the text is not a ZIP code, and for territories and military mail.
 */
export const statesOfZipCode = (text: string): string[] => {
  if (!isZipCode(text)) return []
  const prefix = text.trim().slice(0, 3)
  return [byPrefix.get(prefix), shared[prefix]].flatMap((state) => (state === undefined ? [] : [`US-${state}`]))
}
