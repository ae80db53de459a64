import { z } from 'zod'
import { Metadata, metadataFilter, metadataInput } from '../catalog/metadata.ts'
import {
  csv,
  email,
  failure,
  filter,
  merchant,
  named,
  NotPermitted,
  operation,
  page,
  pageQuery,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  telling,
  text,
  timestamp,
  uuid,
  webhook,
} from '../kit/index.ts'
import { Address, AddressInput, TaxID } from './addresses.ts'

export const CustomerType = named('CustomerType', z.enum(['individual', 'team']))
export type CustomerType = z.output<typeof CustomerType>

/** One line, or nothing: a blank one counts as nothing. */
export const maybe = (max: number) =>
  text(0, max)
    .transform((value) => (value === '' ? null : value))
    .nullish()

/** The caller's own name for a record. */
export const externalId = () => maybe(256)
export const personName = () => maybe(256)
export const locale = () =>
  z
    .string()
    .trim()
    .regex(/^([A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*)?$/, 'Give a language tag such as en, de or pt-BR.')
    .max(35)
    .transform((value) => (value === '' ? null : value))
    .nullish()

const common = {
  ...stamps,
  id: uuid(),
  metadata: Metadata,
  external_id: z.string().nullable().describe('Your own identifier; given once, never changed.'),
  email_verified: z.boolean().describe('Somebody has signed in to the portal with this address.'),
  name: z.string().nullable(),
  billing_name: z.string().nullable().describe('The name on invoices: the name, unless another is given.'),
  billing_address: Address.nullable(),
  tax_id: TaxID.nullable(),
  locale: z.string().nullable(),
  organization_id: uuid(),
  default_payment_method_id: uuid().nullable(),
  deleted_at: timestamp().nullable(),
  first_user_event_at: timestamp().nullable(),
  avatar_url: z.string().nullable(),
}

export const CustomerIndividual = resource('CustomerIndividual', { ...common, type: z.literal('individual'), email: z.string() })
export const CustomerTeam = resource('CustomerTeam', { ...common, type: z.literal('team'), email: z.string().nullable() })

/** Who pays: one person, or a team whose members use what is paid for. */
export const Customer = z.discriminatedUnion('type', [CustomerIndividual, CustomerTeam])
export type Customer = z.output<typeof Customer>

export const MemberOwnerCreate = resource('MemberOwnerCreate', { email: email(), name: personName(), external_id: externalId() })

const profile = {
  metadata: metadataInput().optional(),
  name: personName(),
  billing_address: AddressInput.nullish(),
  tax_id: maybe(100),
  locale: locale(),
}
const creating = {
  ...profile,
  external_id: externalId(),
  organization_id: uuid().nullish(),
  owner: MemberOwnerCreate.nullish(),
  test_clock_id: uuid().nullish().describe('Sandbox only: the test clock that this customer lives by, from the first day.'),
}

export const CustomerCreate = z.discriminatedUnion('type', [
  resource('CustomerIndividualCreate', { ...creating, type: z.literal('individual').optional(), email: email() }),
  resource('CustomerTeamCreate', { ...creating, type: z.literal('team'), email: email().nullish() }),
])

export const CustomerUpdateExternalID = resource('CustomerUpdateExternalID', { ...profile, email: email().nullish() })
export const CustomerUpdate = resource('CustomerUpdate', {
  ...profile,
  email: email().nullish(),
  external_id: externalId(),
  type: CustomerType.nullish(),
})

export const NoSuchCustomer = telling(
  ResourceNotFound,
  'NoSuchCustomer',
  z.object({
    moved: resource('MovedTo', { member_id: uuid(), customer_id: uuid().describe('Whose member it is.') })
      .optional()
      .describe('It held seats before the switch to members: the member that it has become, for those who may read customers.'),
  }),
)

export const AmbiguousExternalCustomerID = failure(
  'AmbiguousExternalCustomerID',
  409,
  'Several of your organizations have a customer with this external id. Confine the request with the header bursar-organization, or use the id.',
)

export const PaymentProcessor = named('PaymentProcessor', z.enum(['stripe']))
const method = { ...stamps, id: uuid(), processor: PaymentProcessor, customer_id: uuid() }
const card = {
  type: z.literal('card'),
  method_metadata: resource('PaymentMethodCardMetadata', {
    brand: z.string(),
    last4: z.string(),
    exp_month: z.int(),
    exp_year: z.int(),
    wallet: z.string().nullable(),
  }),
}
const standing = { is_default: z.boolean().describe('Charged unless another is chosen.') }

export const PaymentMethod = named(
  'PaymentMethod',
  z.union([
    resource('CustomerPaymentMethodCard', { ...method, ...card, ...standing }),
    resource('CustomerPaymentMethodGeneric', { ...method, type: z.string(), ...standing }),
  ]),
)
export type PaymentMethod = z.output<typeof PaymentMethod>

/** The same as its owner sees it. */
export const CustomerPaymentMethod = named(
  'CustomerPaymentMethod',
  z.union([resource('PaymentMethodCard', { ...method, ...card }), resource('PaymentMethodGeneric', { ...method, type: z.string() })]),
)

const read = merchant(['customers:read', 'customers:write'])
const write = merchant('customers:write')
export const byCustomerId = z.object({ id: uuid() })
export const byExternalId = z.object({ external_id: z.string().min(1).max(256) })
const deleting = z.object({
  anonymize: z
    .enum(['true', 'false'])
    .transform((value) => value === 'true')
    .default(false)
    .describe('Also forget who it was.'),
})

export const listCustomers = operation({
  id: 'customers:list',
  method: 'GET',
  path: '/v1/customers/',
  summary: 'List customers',
  access: read,
  query: z.object({
    organization_id: filter(uuid()),
    email: z.string().max(320).optional().describe('Exactly this address, in any case.'),
    query: z.string().max(256).optional().describe('Part of the name, address or external id.'),
    active: z
      .enum(['true', 'false', ''])
      .transform((value) => (value === '' ? undefined : value === 'true'))
      .optional()
      .describe('Only customers with, or without, a subscription that is active, trialing or past due.'),
    ...pageQuery,
    sorting: sorting('CustomerSortProperty', ['created_at', 'email', 'name'], ['-created_at']),
    metadata: metadataFilter(),
  }),
  returns: page('CustomerPage', Customer),
  fails: [],
})

export const exportCustomers = operation({
  id: 'customers:export',
  method: 'GET',
  path: '/v1/customers/export',
  summary: 'Export customers',
  description: 'All customers, newest first, as they are at one moment.',
  access: read,
  query: z.object({ organization_id: filter(uuid()) }),
  returns: csv,
  media: 'text/csv',
  fails: [],
})

export const createCustomer = operation({
  id: 'customers:create',
  method: 'POST',
  path: '/v1/customers/',
  summary: 'Create a customer',
  description: 'A team without an address of its own names its owner. The owner becomes the first member.',
  access: write,
  body: CustomerCreate,
  returns: Customer,
  status: 201,
  fails: [NotPermitted],
})

const reading = { access: read, returns: Customer }
export const getCustomer = operation({
  id: 'customers:get',
  method: 'GET',
  path: '/v1/customers/{id}',
  summary: 'Get a customer',
  ...reading,
  params: byCustomerId,
  fails: [NoSuchCustomer],
})
export const getExternalCustomer = operation({
  id: 'customers:get_external',
  method: 'GET',
  path: '/v1/customers/external/{external_id}',
  summary: 'Get a customer by external id',
  ...reading,
  params: byExternalId,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

const described = 'What is absent stays as it is. A customer becomes a team once and for all; the external id is given once.'
export const updateCustomer = operation({
  id: 'customers:update',
  method: 'PATCH',
  path: '/v1/customers/{id}',
  summary: 'Update a customer',
  description: described,
  access: write,
  params: byCustomerId,
  body: CustomerUpdate,
  returns: Customer,
  fails: [NotPermitted, NoSuchCustomer],
})
export const updateExternalCustomer = operation({
  id: 'customers:update_external',
  method: 'PATCH',
  path: '/v1/customers/external/{external_id}',
  summary: 'Update a customer by external id',
  description: 'What is absent stays as it is.',
  access: write,
  params: byExternalId,
  body: CustomerUpdateExternalID,
  returns: Customer,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})

const gone = 'The customer and its members are gone at once, with every portal session; their address and external id are free again.'
export const deleteCustomer = operation({
  id: 'customers:delete',
  method: 'DELETE',
  path: '/v1/customers/{id}',
  summary: 'Delete a customer',
  description: gone,
  access: write,
  params: byCustomerId,
  query: deleting,
  fails: [NotPermitted, NoSuchCustomer],
})
export const deleteExternalCustomer = operation({
  id: 'customers:delete_external',
  method: 'DELETE',
  path: '/v1/customers/external/{external_id}',
  summary: 'Delete a customer by external id',
  description: gone,
  access: write,
  params: byExternalId,
  query: deleting,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})

export const listPaymentMethods = operation({
  id: 'customers:list_payment_methods',
  method: 'GET',
  path: '/v1/customers/{id}/payment-methods',
  summary: "List a customer's payment methods",
  access: read,
  params: byCustomerId,
  query: z.object(pageQuery),
  returns: page('PaymentMethodPage', PaymentMethod),
  fails: [NoSuchCustomer],
})
export const listExternalPaymentMethods = operation({
  id: 'customers:list_payment_methods_external',
  method: 'GET',
  path: '/v1/customers/external/{external_id}/payment-methods',
  summary: "List a customer's payment methods by external id",
  access: read,
  params: byExternalId,
  query: z.object(pageQuery),
  returns: page('PaymentMethodPage', PaymentMethod),
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

export const customerCreated = webhook('customer.created', Customer, 'A customer is created.')
export const customerUpdated = webhook('customer.updated', Customer, 'A customer changes.')
export const customerDeleted = webhook('customer.deleted', Customer, 'A customer is deleted.')
