import { stdnum } from 'stdnum'
import { expect, test } from 'vitest'
import { readTaxId, taxFormats } from './tax-ids.ts'

test.each([
  ['DE', 'DE 136.695.976', 'DE136695976', 'eu_vat'],
  ['DE', '136695976', 'DE136695976', 'eu_vat'],
  ['FR', 'FR 61 954 506 077', 'FR61954506077', 'eu_vat'],
  ['GR', 'EL 094259216', 'EL094259216', 'eu_vat'],
  ['GB', 'GB 980 7806 84', 'GB980780684', 'gb_vat'],
  ['US', '91-1144442', '911144442', 'us_ein'],
  ['CH', 'CHE-107.787.577 MWST', 'CHE107787577MWST', 'ch_vat'],
  ['AU', '83 914 571 673', '83914571673', 'au_abn'],
  ['CA', '123456789 RT 0001', '123456789RT0001', 'ca_gst_hst'],
  ['AE', '100-1234-5678-9012', '100123456789012', 'ae_trn'],
] as const)('in country %s, the tax number %s is normalized to %s with the format %s', (country, text, value, format) => {
  expect(readTaxId(text, country)).toEqual([value, format])
})

test.each([
  ['DE', 'DE136695978'],
  ['FR', 'DE136695976'],
  ['US', 'eleven'],
  ['AQ', '1'],
  ['US', ''],
  ['NL', '-'],
  ['NL', 'NL'],
] as const)('in country %s, rejects "%s" as a tax number', (country, text) => {
  expect(readTaxId(text, country)).toBeUndefined()
})

test('the library has validators for every country with a named format, and unusual input never makes readTaxId throw', () => {
  for (const { country, named } of taxFormats) {
    for (const text of ['0', '-', '.', country, `${country}-`, '–', '\u{1F600}', ' ']) expect(() => readTaxId(text, country)).not.toThrow()
    if (named) expect(stdnum[country], country).toBeDefined()
  }
})
