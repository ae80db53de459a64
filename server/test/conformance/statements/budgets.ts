/**
 * The statements that an operation may send to the database for its valid request, in `budgets.json`: the count when
 * counting began, the budget, and a reason if the budget is higher than that first count.
 */
export type Budget = readonly [before: number, budget: number, reason?: string]

export const isReason = (reason: string | undefined): boolean => (reason ?? '').trim().length > 10

const get = 2
const list = 3
const write = 9

/** Goals of the operations that are called most. The counts include credential, audit, events and idempotency key. */
export const goals: Readonly<Record<string, number>> = {
  'products:list': list,
  'products:get': get,
  'products:create': write,
  'products:update': write,
  'customers:list': list,
  'customers:get': get,
  'customers:create': write,
  'customers:update': write,
  'orders:list': list,
  'orders:get': get,
  'subscriptions:list': list,
  'subscriptions:get': get,
  'subscriptions:update': write,
  'checkouts:list': list,
  'checkouts:get': get,
  'checkouts:create': write,
  'checkouts:update': write,
  'customers:get_state': get,
  'customer_portal:license_keys:validate': get,
  'customer-seats:assign_seat': write,
  'customer_portal:subscriptions:list': list,
  'checkouts:client_confirm': 40,
}
