import { z } from 'zod'
import { Metadata, metadataFilter, metadataInput } from '../catalog/metadata.ts'
import {
  csv,
  email,
  failure,
  filter,
  flagInText,
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
  switchInText,
  telling,
  text,
  timestamp,
  uuid,
  webhook,
} from '../kit/index.ts'
import { Address, AddressInput, TaxID } from './addresses.ts'

export const CustomerType = named('CustomerType', z.enum(['individual', 'team']))
export type CustomerType = z.output<typeof CustomerType>

/** An optional single line of text. An empty line becomes null. */
export const maybe = (max: number) =>
  text(0, max)
    .transform((value) => (value === '' ? null : value))
    .nullish()

/** The caller's own identifier for a record. */
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
  external_id: z.string().nullable().describe('Your own identifier. It can be set once and never changed.'),
  email_verified: z.boolean().describe('True if a person has signed in to the portal with this address.'),
  name: z.string().nullable(),
  billing_name: z.string().nullable().describe('The name on invoices. Defaults to the name.'),
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

/** The paying party: one person, or a team whose members use the purchases. */
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
  test_clock_id: uuid().nullish().describe('Sandbox only: the test clock of this customer. It cannot be set later.'),
}

export const CustomerCreate = z.discriminatedUnion('type', [
  resource('CustomerIndividualCreate', { ...creating, type: z.literal('individual').optional().meta({ default: 'individual' }), email: email() }),
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
    moved: resource('MovedTo', { member_id: uuid(), customer_id: uuid().describe('The customer that the member belongs to.') })
      .optional()
      .describe('Present if the customer held seats before the switch to members, and the caller may read customers: the member that replaced it.'),
  }),
)

export const AmbiguousExternalCustomerID = failure(
  'AmbiguousExternalCustomerID',
  409,
  'Several of your organizations have a customer with this external id. Select one with the header bursar-organization, or use the id.',
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
const standing = { is_default: z.boolean().describe('True if it is charged by default.') }

export const PaymentMethod = named(
  'PaymentMethod',
  z.union([
    resource('CustomerPaymentMethodCard', { ...method, ...card, ...standing }),
    resource('CustomerPaymentMethodGeneric', { ...method, type: z.string(), ...standing }),
  ]),
)
export type PaymentMethod = z.output<typeof PaymentMethod>

/** A payment method as its owner sees it. */
export const CustomerPaymentMethod = named(
  'CustomerPaymentMethod',
  z.union([resource('PaymentMethodCard', { ...method, ...card }), resource('PaymentMethodGeneric', { ...method, type: z.string() })]),
)

const read = merchant(['customers:read', 'customers:write'])
const write = merchant('customers:write')
export const byCustomerId = z.object({ id: uuid() })
export const byExternalId = z.object({ external_id: z.string().min(1).max(256) })
const deleting = z.object({
  anonymize: switchInText(false).describe('Also erases the personal data.'),
})

export const listCustomers = operation({
  id: 'customers:list',
  method: 'GET',
  path: '/v1/customers/',
  summary: 'List customers',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    email: z.string().max(320).optional().describe('The exact address, case-insensitive.'),
    query: z.string().max(256).optional().describe('Part of the name, address or external id.'),
    active: flagInText().describe('Only customers with, or without, a subscription that is active, trialing or past due.'),
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
  description: 'All customers, newest first, from one snapshot.',
  access: read,
  costs: 'none',
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
  description: 'A team without its own address must name its owner. The owner becomes the first member.',
  access: write,
  costs: 'jobs',
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
  costs: 'none',
  params: byCustomerId,
  fails: [NoSuchCustomer],
})
export const getExternalCustomer = operation({
  id: 'customers:get_external',
  method: 'GET',
  path: '/v1/customers/external/{external_id}',
  summary: 'Get a customer by external id',
  ...reading,
  costs: 'none',
  params: byExternalId,
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

const described = 'Absent fields stay unchanged. A team cannot become an individual again; the external id cannot change once it is set.'
export const updateCustomer = operation({
  id: 'customers:update',
  method: 'PATCH',
  path: '/v1/customers/{id}',
  summary: 'Update a customer',
  description: described,
  access: write,
  costs: 'jobs',
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
  description: 'Absent fields stay unchanged.',
  access: write,
  costs: 'jobs',
  params: byExternalId,
  body: CustomerUpdateExternalID,
  returns: Customer,
  fails: [NotPermitted, NoSuchCustomer, AmbiguousExternalCustomerID],
})

const gone = 'Deletes the customer and its members at once and ends every portal session. Their address and external id can be used again.'
export const deleteCustomer = operation({
  id: 'customers:delete',
  method: 'DELETE',
  path: '/v1/customers/{id}',
  summary: 'Delete a customer',
  description: gone,
  access: write,
  costs: 'jobs',
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
  costs: 'jobs',
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
  costs: 'none',
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
  costs: 'none',
  params: byExternalId,
  query: z.object(pageQuery),
  returns: page('PaymentMethodPage', PaymentMethod),
  fails: [NoSuchCustomer, AmbiguousExternalCustomerID],
})

export const customerCreated = webhook('customer.created', Customer, 'A customer is created.')
export const customerUpdated = webhook('customer.updated', Customer, 'A customer changes.')
export const customerDeleted = webhook('customer.deleted', Customer, 'A customer is deleted.')
