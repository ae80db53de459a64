/** A column with sealed secrets, with its primary key and the binding of its values. */
export interface SealedColumn {
  readonly table: string
  readonly column: string
  /** The primary key, with PostgreSQL's type names. */
  readonly key: Readonly<Record<string, 'uuid' | 'text' | 'timestamptz' | 'bigint'>>
  /** Returns the text that a row's secret is bound to (see `Sealer`), computed from the primary key of the row. */
  readonly bound: (key: Readonly<Record<string, string>>) => string
}

const tenant = { organization_id: 'uuid', id: 'uuid' } as const
const byId = ({ id }: Readonly<Record<string, string>>): string => id!

/**
 * All columns with sealed secrets. `bursar keys reseal` uses this list, so a column that is missing here becomes
 * unreadable when its key is removed. A test compares the list with the database.
 */
export const sealedColumns: readonly SealedColumn[] = [
  { table: 'checkout_drafts', column: 'fields_sealed', key: tenant, bound: ({ id }) => `checkout draft ${id}` },
  { table: 'checkout_links', column: 'secret_sealed', key: tenant, bound: byId },
  { table: 'checkouts', column: 'secret_sealed', key: tenant, bound: byId },
  { table: 'events', column: 'secrets_sealed', key: { organization_id: 'uuid', id: 'uuid', wall_at: 'timestamptz' }, bound: byId },
  { table: 'licence_signing_keys', column: 'sealed', key: { kid: 'text' }, bound: ({ kid }) => kid! },
  { table: 'license_keys', column: 'key_sealed', key: tenant, bound: ({ organization_id, id }) => `license_key:${organization_id}:${id}` },
  { table: 'payment_accounts', column: 'key_sealed', key: tenant, bound: ({ id }) => `payment account key ${id}` },
  { table: 'payment_accounts', column: 'secret_sealed', key: tenant, bound: ({ id }) => `payment account ${id}` },
  { table: 'second_factors', column: 'sealed', key: { user_id: 'uuid' }, bound: ({ user_id }) => user_id! },
  { table: 'signing_keys', column: 'sealed', key: { kid: 'text' }, bound: ({ kid }) => kid! },
  { table: 'webhook_endpoints', column: 'previous_sealed', key: tenant, bound: byId },
  { table: 'webhook_endpoints', column: 'secret_sealed', key: tenant, bound: byId },
]
