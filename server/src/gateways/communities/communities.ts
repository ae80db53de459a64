/** Somewhere outside that a benefit lets people into. */
export type Place =
  | { readonly kind: 'github'; readonly repository_owner: string; readonly repository_name: string; readonly permission: string }
  | { readonly kind: 'discord'; readonly guild_id: string; readonly role_id: string }
  | { readonly kind: 'slack'; readonly workspace_id: string; readonly channel_id: string }

export interface Communities {
  /** Whether the place is there and we may let people in, as its own service sees it now. */
  readonly inspect: (place: Place) => Promise<'ready' | 'absent' | 'forbidden'>
  /** Lets an account in. Said twice, it changes nothing the second time. */
  readonly admit: (place: Place, account: string) => Promise<void>
  /** Shows an account out. Of somebody who is not there, it changes nothing. */
  readonly dismiss: (place: Place, account: string) => Promise<void>
}

/** The service said no, for good: asking again will not help. */
export class CommunityRefusal extends Error {
  readonly code: 'absent' | 'forbidden' | 'unknown_account'
  constructor(code: CommunityRefusal['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** No answer: it may have been done or not. Admitting and dismissing can be repeated. */
export class CommunitySilent extends Error {}
