import { z } from 'zod'
import { merchant, named, NotPermitted, operation, resource, timestamp, uuid } from '../kit/index.ts'
import { Country } from '../world.ts'

export const TaxProviderName = named('TaxProviderName', z.enum(['none', 'rates'])).describe(
  '`none`: no tax is collected. `rates`: by the rates that are listed here, and none elsewhere.',
)
export type TaxProviderName = z.output<typeof TaxProviderName>

const place = {
  country: Country,
  state: z.string().nullable().describe('Like `US-CA` or `CA-ON`; null for the whole country. The rate of a state counts before that of its country.'),
}
const reverse = z
  .boolean()
  .describe('A business of this country with a tax number accounts for the tax itself, when you are in another country: it is charged none.')

export const TaxRate = resource('TaxRate', {
  ...place,
  rate: z.string().describe('Percent, as a decimal number in text: exact, whatever numbers a client knows.'),
  reverse_charge: reverse,
})

export const TaxSettings = resource('TaxSettings', {
  organization_id: uuid(),
  modified_at: timestamp().nullable().describe('Null while nobody has set anything.'),
  provider: TaxProviderName,
  rates: z.array(TaxRate),
})
export type TaxSettings = z.output<typeof TaxSettings>

export const TaxSettingsUpdate = resource('TaxSettingsUpdate', {
  organization_id: uuid().nullish().describe('Required unless the token is that of an organization.'),
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
          .describe('Percent, with at most 4 decimals.'),
        reverse_charge: reverse,
      }),
    )
    .max(500)
    .describe('The whole list: what is not in it is no longer charged.'),
})

export const getTaxSettings = operation({
  id: 'tax-settings:get',
  method: 'GET',
  path: '/v1/tax-settings/',
  summary: 'Get tax settings',
  access: merchant(['organizations:read', 'organizations:write']),
  query: z.object({ organization_id: uuid().optional().describe('Required where the credential reaches several organizations.') }),
  returns: TaxSettings,
  fails: [NotPermitted],
})

export const updateTaxSettings = operation({
  id: 'tax-settings:update',
  method: 'PUT',
  path: '/v1/tax-settings/',
  summary: 'Update tax settings',
  description: 'Says which tax is charged from now on. Replaces all rates; what was sold keeps the tax it was sold with.',
  access: merchant('organizations:write'),
  body: TaxSettingsUpdate,
  returns: TaxSettings,
  fails: [NotPermitted],
})
