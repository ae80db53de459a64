/** An external place that a benefit gives access to: a GitHub repository, a Discord role or a Slack channel. */
export type Place =
  | { readonly kind: 'github'; readonly repository_owner: string; readonly repository_name: string; readonly permission: string }
  | { readonly kind: 'discord'; readonly guild_id: string; readonly role_id: string }
  | { readonly kind: 'slack'; readonly workspace_id: string; readonly channel_id: string }

export interface Communities {
  /** Returns `ready` if the place exists and we may admit accounts to it, otherwise the reason why not. */
  readonly inspect: (place: Place) => Promise<'ready' | 'absent' | 'forbidden'>
  /** Admits an account. Idempotent. */
  readonly admit: (place: Place, account: string) => Promise<void>
  /** Removes an account. Idempotent: an absent account changes nothing. */
  readonly dismiss: (place: Place, account: string) => Promise<void>
}

/** GitHub, Discord or Slack refused the call. A retry will not help. */
export class CommunityRefusal extends Error {
  readonly code: 'absent' | 'forbidden' | 'unknown_account'
  constructor(code: CommunityRefusal['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** GitHub, Discord or Slack did not respond. The effect may or may not have happened, so `admit` and `dismiss` can be retried. */
export class CommunitySilent extends Error {}
