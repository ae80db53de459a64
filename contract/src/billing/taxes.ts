import { z } from 'zod'
import { merchant, named, NotPermitted, operation, resource, timestamp, uuid } from '../kit/index.ts'
import { Country } from '../countries.ts'

export const TaxProviderName = named('TaxProviderName', z.enum(['none', 'rates', 'service'])).describe(
  '`none`: no tax is collected. `rates`: tax is collected by the rates in this list, and not in other places. `service`: the tax service of this deployment computes the tax of each sale, and the list is not used.',
)
export type TaxProviderName = z.output<typeof TaxProviderName>

/** Why this tax applies, or why none does. */
export const TaxReason = named(
  'TaxReason',
  z.enum(['standard_rated', 'not_collecting', 'product_exempt', 'reverse_charge', 'not_subject_to_tax', 'not_supported', 'customer_exempt']),
)
export type TaxReason = z.output<typeof TaxReason>

/** `unverified`: the service that checks VAT numbers gave no definite answer. */
export const TaxIDStatus = named('TaxIDStatus', z.enum(['valid', 'unverified']))

const place = {
  country: Country,
  state: z
    .string()
    .nullable()
    .describe('For example `US-CA` or `CA-ON`; null for the whole country. The rate of a state takes precedence over the rate of its country.'),
}
const reverse = z.boolean().describe('Reverse charge: a business of this country with a tax number is charged no tax, if you are in another country.')

export const TaxRate = resource('TaxRate', {
  ...place,
  rate: z.string().describe('Percent, as a decimal number in text, so that no precision is lost.'),
  reverse_charge: reverse,
})

export const TaxSettings = resource('TaxSettings', {
  organization_id: uuid(),
  modified_at: timestamp().nullable().describe('Null until the settings are first saved.'),
  provider: TaxProviderName,
  rates: z.array(TaxRate),
})
export type TaxSettings = z.output<typeof TaxSettings>

export const TaxSettingsUpdate = resource('TaxSettingsUpdate', {
  organization_id: uuid().nullish().describe('Required unless an organization access token is used.'),
  provider: TaxProviderName,
  rates: z
    .array(
      resource('TaxRateInput', {
        country: place.country,
        state: z.string().max(10).nullish().describe(place.state.description!),
        rate: z
          .union([z.number(), z.string()])
          .transform(String)
          .refine((text) => /^\d{1,3}(\.\d{1,4})?$/.test(text) && Number(text) <= 100, 'Use a percentage between 0 and 100, with at most 4 decimals.')
          .meta({ description: 'Percent, with at most 4 decimals.', pattern: '^\\d{1,3}(\\.\\d{1,4})?$', minimum: 0, maximum: 100 }),
        reverse_charge: reverse,
      }),
    )
    .max(500)
    .describe('The complete list. Rates that are not in it are removed.'),
})

export const getTaxSettings = operation({
  id: 'tax-settings:get',
  method: 'GET',
  path: '/v1/tax-settings/',
  summary: 'Get tax settings',
  access: merchant(['organizations:read', 'organizations:write']),
  costs: 'none',
  query: z.object({ organization_id: uuid().optional().describe('Required if the credential has access to several organizations.') }),
  returns: TaxSettings,
  fails: [NotPermitted],
})

export const updateTaxSettings = operation({
  id: 'tax-settings:update',
  method: 'PUT',
  path: '/v1/tax-settings/',
  summary: 'Update tax settings',
  description: 'Sets the tax for future orders and replaces all rates. Existing orders keep their tax.',
  access: merchant('organizations:write'),
  costs: 'none',
  body: TaxSettingsUpdate,
  returns: TaxSettings,
  fails: [NotPermitted],
})
