import { z } from 'zod'
import { Address, AddressInput } from '../customers/addresses.ts'
import { email, merchant, NotPermitted, operation, resource, text, timestamp, uuid } from '../kit/index.ts'

/** Who sells, as it stands on invoices. */
export const SellerIdentity = resource('SellerIdentity', {
  organization_id: uuid(),
  modified_at: timestamp().nullable().describe('Null while nobody has set anything: the name of the organization stands there then.'),
  legal_name: z.string(),
  address: Address.nullable(),
  tax_id: z.string().nullable(),
  email: z.string().nullable(),
  footer: z.string().nullable(),
})
export type SellerIdentity = z.output<typeof SellerIdentity>

export const SellerIdentityUpdate = resource('SellerIdentityUpdate', {
  organization_id: uuid().nullish().describe('Required unless the token is that of an organization.'),
  legal_name: text(1, 256).describe('As it is registered.'),
  address: AddressInput,
  tax_id: text(1, 100).nullish().describe('Your number for VAT or other tax, as it is to be printed.'),
  email: email().nullish().describe('Where questions about an invoice go.'),
  footer: text(1, 300).nullish().describe('What the law of your country wants on the page besides: a register, who acts for the company.'),
})

export const getSellerIdentity = operation({
  id: 'seller-identity:get',
  method: 'GET',
  path: '/v1/seller-identity/',
  summary: 'Get the seller identity',
  access: merchant(['organizations:read', 'organizations:write']),
  query: z.object({ organization_id: uuid().optional().describe('Required where the credential reaches several organizations.') }),
  returns: SellerIdentity,
  fails: [NotPermitted],
})

export const updateSellerIdentity = operation({
  id: 'seller-identity:update',
  method: 'PUT',
  path: '/v1/seller-identity/',
  summary: 'Set the seller identity',
  description: 'Replaces all there is. An invoice that was asked for before keeps what it said.',
  access: merchant('organizations:write'),
  body: SellerIdentityUpdate,
  returns: SellerIdentity,
  fails: [NotPermitted],
})
