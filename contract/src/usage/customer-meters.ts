import { z } from 'zod'
import { Meter } from '../catalog/meters.ts'
import { Customer } from '../customers/customers.ts'
import {
  emptyIsAbsent,
  filter,
  merchant,
  NotPermitted,
  operation,
  page,
  pageQuery,
  portal,
  resource,
  ResourceNotFound,
  sorting,
  stamps,
  uuid,
} from '../kit/index.ts'

const balance = {
  ...stamps,
  id: uuid(),
  customer_id: uuid(),
  meter_id: uuid(),
  consumed_units: z.number().describe('Units used in the current period. Without a subscription: units used at any time.'),
  credited_units: z.int().describe('Units credited by benefits.'),
  balance: z.number().describe('The remaining credits; negative if more was used.'),
}

/** The usage of one customer on one meter. It exists from the first usage or the first credit on. */
export const CustomerMeter = resource('CustomerMeter', { ...balance, customer: Customer, meter: Meter })
export type CustomerMeter = z.output<typeof CustomerMeter>

export const CustomerCustomerMeter = resource('CustomerCustomerMeter', {
  ...balance,
  meter: resource('CustomerCustomerMeterMeter', { ...stamps, id: uuid(), name: z.string() }),
})
export type CustomerCustomerMeter = z.output<typeof CustomerCustomerMeter>

const byId = z.object({ id: uuid() })
const read = merchant('customer_meters:read')
const own = portal(['customer_portal:read', 'customer_portal:write'])
const late = 'The answer contains all usage that was ingested before the request. Sorting by units or balance may be a few seconds late.'

export const listCustomerMeters = operation({
  id: 'customer_meters:list',
  method: 'GET',
  path: '/v1/customer-meters/',
  summary: 'List customer meters',
  description: `The usage of customers on meters. Archived meters are listed only if \`meter_id\` names them. ${late}`,
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    customer_id: filter(uuid()),
    external_customer_id: filter(z.string().max(256)),
    meter_id: filter(uuid()),
    ...pageQuery,
    sorting: sorting(
      'CustomerMeterSortProperty',
      ['created_at', 'modified_at', 'customer_id', 'customer_name', 'meter_id', 'meter_name', 'consumed_units', 'credited_units', 'balance'],
      ['-modified_at'],
    ),
  }),
  returns: page('CustomerMeterPage', CustomerMeter),
  fails: [],
})

export const getCustomerMeter = operation({
  id: 'customer_meters:get',
  method: 'GET',
  path: '/v1/customer-meters/{id}',
  summary: 'Get a customer meter',
  access: read,
  costs: 'none',
  params: byId,
  returns: CustomerMeter,
  fails: [NotPermitted, ResourceNotFound],
})

export const listPortalMeters = operation({
  id: 'customer_portal:customer_meters:list',
  method: 'GET',
  path: '/v1/customer-portal/meters/',
  summary: 'List my meters',
  description: `The usage of the customer on the meters of its active subscriptions and benefits. Plain members see none: usage is part of billing. ${late}`,
  access: own,
  costs: 'none',
  query: z.object({
    meter_id: filter(uuid()),
    query: emptyIsAbsent(z.string().max(256)).describe('Part of the name of the meter.'),
    ...pageQuery,
    sorting: sorting(
      'CustomerCustomerMeterSortProperty',
      ['created_at', 'modified_at', 'meter_id', 'meter_name', 'consumed_units', 'credited_units', 'balance'],
      ['-modified_at'],
    ),
  }),
  returns: page('CustomerCustomerMeterPage', CustomerCustomerMeter),
  fails: [NotPermitted],
})

export const getPortalMeter = operation({
  id: 'customer_portal:customer_meters:get',
  method: 'GET',
  path: '/v1/customer-portal/meters/{id}',
  summary: 'Get one of my meters',
  access: own,
  costs: 'none',
  params: byId,
  returns: CustomerCustomerMeter,
  fails: [NotPermitted, ResourceNotFound],
})
