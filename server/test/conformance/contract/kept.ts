/** Facts in which our document differs from the public contract, grouped by reason. docs/compatibility.md lists the same reasons. */
export const kept: Readonly<Record<string, readonly string[]>> = {
  'A PATCH changes nothing that it leaves out; a new organization sells seats, and changes to members by migration only.': [
    'POST /v1/organizations body feature_settings.checkout_localization_enabled default',
    'POST /v1/organizations body feature_settings.member_model_enabled default',
    'POST /v1/organizations body feature_settings.seat_based_pricing_enabled default',
    'PATCH /v1/organizations/{} body feature_settings.checkout_localization_enabled default',
    'PATCH /v1/organizations/{} body feature_settings.member_model_enabled default',
    'PATCH /v1/organizations/{} body feature_settings.seat_based_pricing_enabled default',
    'PATCH /v1/license-keys/{} body usage default',
    'PATCH /v1/benefits/{} body properties.note required',
  ],
  'The specification lets public clients leave out client_secret.': [
    'POST /v1/oauth2/token body client_secret required',
    'POST /v1/oauth2/revoke body client_secret required',
    'POST /v1/oauth2/introspect body client_secret required',
  ],
  'RFC 7591 and RFC 6749 do not ask for an API token: registration is open or uses the registration token, authorization uses the session of the browser.': [
    'POST /v1/oauth2/register security',
    'GET /v1/oauth2/register/{} security',
    'PUT /v1/oauth2/register/{} security',
    'DELETE /v1/oauth2/register/{} security',
    'GET /v1/oauth2/authorize security',
  ],
  'The client secret in the path is the credential of a checkout.': ['POST /v1/checkouts/client/{}/confirm security'],
  'Whether a customer is a business follows from its billing details, unless the request says so.': ['POST /v1/checkouts body is_business_customer default'],
  'One record with an optional field takes what the variants of the contract take.': [
    'POST /v1/products body recurring_interval required',
    'POST /v1/customer-sessions body customer_id required',
    'POST /v1/customer-sessions body external_customer_id required',
  ],
  'The store has checked the checksum of a part already.': ['POST /v1/files/{}/uploaded body parts[].checksum_sha256_base64 required'],
  'The discriminator of a union is always sent.': [
    'POST /v1/meters body aggregation.func required',
    'POST /v1/meters body aggregation.func default',
    'PATCH /v1/meters/{} body aggregation.func required',
    'PATCH /v1/meters/{} body aggregation.func default',
  ],
  'The contract has no such parameter or field.': [
    'POST /v1/organizations body notification_settings.new_order required',
    'POST /v1/organizations body notification_settings.new_subscription required',
    'PATCH /v1/organizations/{} body notification_settings.new_order required',
    'PATCH /v1/organizations/{} body notification_settings.new_subscription required',
    'POST /v1/organizations body order_settings.invoice_number_at required',
    'PATCH /v1/organizations/{} body order_settings.invoice_number_at required',
    'GET /v1/files query sorting default',
    'GET /v1/files query sorting sorts',
    'GET /v1/license-keys query sorting default',
    'GET /v1/license-keys query sorting sorts',
    'GET /v1/customer-seats query limit default',
    'GET /v1/customer-seats query page default',
    'GET /v1/customer-portal/seats query limit default',
    'GET /v1/customer-portal/seats query page default',
    'POST /v1/webhooks/endpoints body strict default',
    'PATCH /v1/webhooks/endpoints/{}/secret query overlap default',
  ],
  'An absent list is an empty list in both.': [
    'POST /v1/benefits body properties.team_invitees default',
    'PATCH /v1/benefits/{} body properties.team_invitees default',
  ],
}

/** Operations of the public contract that are not built yet: usage and metrics. */
export const notBuilt = /^[A-Z]+ \/v1\/(metrics|events|event-types|customer-meters|customer-portal\/meters|meters\/\{\}\/quantities)(\/|$)/
