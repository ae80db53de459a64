import { z } from 'zod'
import { Address, AddressInput } from '../customers/addresses.ts'
import { email, merchant, NotPermitted, operation, resource, text, timestamp, uuid } from '../kit/index.ts'

/** The seller's identity as printed on invoices. */
export const SellerIdentity = resource('SellerIdentity', {
  organization_id: uuid(),
  modified_at: timestamp().nullable().describe('Null until the identity is first set. Until then, `legal_name` is the name of the organization.'),
  legal_name: z.string(),
  address: Address.nullable(),
  tax_id: z.string().nullable(),
  email: z.string().nullable(),
  footer: z.string().nullable(),
})
export type SellerIdentity = z.output<typeof SellerIdentity>

export const SellerIdentityUpdate = resource('SellerIdentityUpdate', {
  organization_id: uuid().nullish().describe('Required unless an organization access token is used.'),
  legal_name: text(1, 256).describe('The registered name.'),
  address: AddressInput,
  tax_id: text(1, 100).nullish().describe('Your VAT or other tax number, as it is printed on documents.'),
  email: email().nullish().describe('The address for questions about an invoice.'),
  footer: text(1, 300).nullish().describe('Other text that your law requires on an invoice, such as a register number or the legal representative.'),
})

export const getSellerIdentity = operation({
  id: 'seller-identity:get',
  method: 'GET',
  path: '/v1/seller-identity/',
  summary: 'Get the seller identity',
  access: merchant(['organizations:read', 'organizations:write']),
  costs: 'none',
  query: z.object({ organization_id: uuid().optional().describe('Required if the credential has access to several organizations.') }),
  returns: SellerIdentity,
  fails: [NotPermitted],
})

export const updateSellerIdentity = operation({
  id: 'seller-identity:update',
  method: 'PUT',
  path: '/v1/seller-identity/',
  summary: 'Set the seller identity',
  description: 'Replaces all fields. Invoices that were requested before stay unchanged.',
  access: merchant('organizations:write'),
  costs: 'none',
  body: SellerIdentityUpdate,
  returns: SellerIdentity,
  fails: [NotPermitted],
})
