const kibibyte = 1024
const mebibyte = 1024 * kibibyte

/** The rate limits by name. Operations use `api` unless they name another. */
export type BudgetName = 'api' | 'license_keys' | 'sign_in' | 'registration' | 'checkout_link' | 'processor_events'

/** At most `limit` requests in any window of `seconds`. */
export interface RateWindow {
  readonly limit: number
  readonly seconds: number
}

export interface RateLimit {
  readonly charged_to: string
  readonly production: readonly RateWindow[]
  readonly sandbox: readonly RateWindow[]
}

const alike = (charged_to: string, ...windows: readonly RateWindow[]): RateLimit => ({ charged_to, production: windows, sandbox: windows })
const address = 'the network address of the client'

/** Every rate limit. The server enforces this table and the OpenAPI document publishes it; BURSAR_BUDGETS replaces single entries. */
export const rateLimits: Readonly<
  Record<
    | BudgetName
    | 'dashboard'
    | 'page_session'
    | 'new_page_sessions'
    | 'page_address'
    | 'ingested_events'
    | 'checkout_declines'
    | 'vat_checks'
    | 'vat_checks_of_sellers'
    | 'received_events'
    | 'refused_events'
    | 'failed_authentications'
    | 'other_paths'
    | 'readiness',
    RateLimit
  >
> = {
  api: {
    charged_to: 'the organization, user, OAuth client or customer of the token; without one, the network address of the client',
    production: [{ limit: 500, seconds: 60 }],
    sandbox: [{ limit: 100, seconds: 60 }],
  },
  // Counts the calls of a web session. The dashboard loads several lists for each screen, and the people of an organization
  // must not share the limit of its tokens.
  dashboard: alike('the web session: one signed-in browser', { limit: 600, seconds: 60 }),
  // Counts each page view and each call of the API that the page makes in the process. A person needs as many in the
  // sandbox as in production.
  page_session: alike('the page session: one browser, known by a signed cookie', { limit: 1200, seconds: 60 }),
  // Limits the page sessions that one address begins. A browser that drops its cookie begins a new one with each request.
  new_page_sessions: alike(`${address}, for page sessions that began less than a minute ago`, { limit: 2000, seconds: 60 }),
  // Limits all older page sessions of one address together, because an attacker could collect them.
  page_address: alike(`${address}, for older page sessions`, { limit: 4000, seconds: 60 }),
  // Counts the events of each call of ingest, besides the call itself.
  ingested_events: alike('the organization of the events', { limit: 600_000, seconds: 60 }),
  license_keys: alike(address, { limit: 3, seconds: 1 }),
  sign_in: alike(address, { limit: 6, seconds: 60 }, { limit: 30, seconds: 3600 }),
  registration: alike(address, { limit: 10, seconds: 60 }, { limit: 50, seconds: 3600 }),
  // Limits the testing of stolen cards from one IP address. Only declined payments count. The sandbox charges no real card.
  checkout_declines: {
    charged_to: address,
    production: [
      { limit: 30, seconds: 3600 },
      { limit: 100, seconds: 86_400 },
    ],
    sandbox: [{ limit: 1000, seconds: 3600 }],
  },
  // Limits the questions to the VAT service, which has limits of its own. A number whose answer is known does not count.
  vat_checks: alike(`${address}, for requests of buyers`, { limit: 20, seconds: 3600 }),
  vat_checks_of_sellers: alike('the organization or user of the credential', { limit: 600, seconds: 3600 }),
  // Counts every event before its body is read, to limit the work that unsigned events cause. The limit is far above
  // the number of events that one IP address of a payment processor sends.
  received_events: alike(address, { limit: 12_000, seconds: 60 }),
  // Counts the verified events of one payment account. Rejected events and other traffic from the same IP address do not count.
  processor_events: alike('the payment account', { limit: 6000, seconds: 60 }),
  // Counts events that cannot be verified or belong to no payment account.
  refused_events: alike(address, { limit: 60, seconds: 60 }),
  // Limits visits to checkout links, because each visit creates a checkout. A whole office may open the same link.
  checkout_link: alike(address, { limit: 60, seconds: 60 }, { limit: 600, seconds: 3600 }),
  failed_authentications: alike(address, { limit: 60, seconds: 60 }),
  // Limits requests that belong to no operation: unknown paths and the OpenAPI document.
  other_paths: alike(address, { limit: 600, seconds: 60 }),
  // Limits readiness probes. This limit is separate, so that other requests from the address of a load balancer cannot
  // make its probes fail.
  readiness: alike(address, { limit: 1200, seconds: 60 }),
}

/** Request limits that apply to every operation. */
export const requestLimits = {
  body_bytes: mebibyte,
  // Bodies of `events:ingest` that are being handled at the same time. Counted in each process of the API.
  large_body_bytes_at_once_per_caller: 40 * mebibyte,
  large_body_bytes_at_once: 100 * mebibyte,
  body_depth: 32,
  list_elements: 10_000,
  // Usage events of one call of ingest. This list may be longer than other lists.
  events_per_request: 50_000,
  // Computing time for counting the events of one call on the meters of the organization.
  counting_seconds: 10,
  // Corrections of usage events of one call.
  corrections_per_request: 1_000,
  // Usage events that a dry run of a meter reads.
  events_per_dry_run: 100_000,
  record_keys: 1_000,
  reported_problems: 50,
  header_bytes: 16 * kibibyte,
  path_parameter_characters: 500,
  seconds_to_arrive: 30,
  seconds_for_headers_to_arrive: 10,
} as const

/** Limits that depend on stored data, so that no schema can express them. Some differ between production and sandbox. */
export const accountLimits = {
  webhook_endpoints_per_organization: 50,
  meters_per_organization: 100,
  // Clauses and nested filters of all meters that count events. Each event is compared with each of them.
  meter_clauses_per_organization: 2_000,
  metric_dashboards_per_organization: 100,
  sign_in_codes_per_mailbox_network_and_hour: 5,
  sign_in_codes_per_mailbox_and_hour: 30,
  sign_in_codes_per_mailbox_and_hour_for_recognised_browsers: 10,
  tries_per_sign_in_code: 5,
  second_factor_tries_per_user_and_hour: 20,
  email_changes_per_customer_and_hour: 5,
  seat_invitations_per_address_and_hour: 20,
  // Distinct e-mail addresses that are invited to seats per day. A purchase may invite two addresses for each of its
  // seats, and at least ten.
  seat_recipients_per_seat_and_day: 2,
  seat_recipients_per_small_purchase_and_day: 10,
  // A lower limit for a purchase without a payment, because its number of seats can be raised at no cost.
  seat_recipients_per_unpaid_purchase_and_day: 20,
  largest_share_of_seat_recipients_per_purchase: 0.1,
  seat_recipients_per_organization_and_day: { production: 20_000, sandbox: 2_000 },
  // Limits the testing of stolen cards. The sandbox charges no real card, so its limit is higher.
  declined_payments_per_checkout_and_hour: { production: 10, sandbox: 100 },
  failed_payment_methods_per_customer_and_hour: 10,
  seats_per_subscription: 10_000,
  days_per_test_clock_advance: 3653,
  exports_at_once_per_organization: 2,
  // Requests that wait for events. Counted in each process of the API.
  waiting_event_requests_per_organization: 4,
  // Open streams of `live:stream`. Counted in each process of the API.
  live_streams_per_session: 12,
  live_streams_per_organization: 500,
  // Calls of ingest that write at the same time. Counted in each process of the API. Further calls wait.
  ingest_requests_at_once_per_organization: 2,
  // Requests that read many events or facts. Counted in each process of the API. Further requests wait.
  scanning_reads_at_once_per_organization: 2,
  // Reservations of one customer on one meter that wait for the one before. Counted in each process of the API.
  waiting_reservations_per_customer_meter: 100,
  event_names_per_organization: 10_000,
  waiting_children_per_parent_event: 10_000,
} as const
