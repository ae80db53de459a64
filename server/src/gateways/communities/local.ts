import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../platform/clock.ts'
import { CommunityRefusal, CommunitySilent, type Communities, type Place } from './communities.ts'

/** One effect that the simulated service has recorded. Requests without an effect are not recorded. */
export interface CommunityAction {
  readonly at: string
  readonly did: 'admitted' | 'dismissed'
  readonly place: string
  readonly account: string
}

export interface LocalCommunities extends Communities {
  /** Returns the accounts that have access to a place, according to the recorded effects. */
  readonly present: (place: Place) => readonly string[]
  readonly books: () => readonly CommunityAction[]
}

interface LocalOptions {
  /** Folder in which the effects are recorded. The record survives restarts. */
  readonly folder: string
  readonly clock: Clock
  /** For tests: returns whether a call gets no response, and whether that happens before or after its effect. */
  readonly misbehave?: (call: 'admit' | 'dismiss') => 'before' | 'after' | undefined
}

const nameOf = (place: Place): string => {
  switch (place.kind) {
    case 'github':
      return `github/${place.repository_owner}/${place.repository_name}/${place.permission}`
    case 'discord':
      return `discord/${place.guild_id}/${place.role_id}`
    case 'slack':
      return `slack/${place.workspace_id}/${place.channel_id}`
  }
}

/**
 * Simulates GitHub, Discord and Slack in the sandbox, and records their effects on disk. Places and accounts whose
 * names contain `absent` do not exist. Places whose names contain `forbidden` refuse access.
 */
export const openLocalCommunities = ({ folder, clock, misbehave = () => undefined }: LocalOptions): LocalCommunities => {
  mkdirSync(folder, { recursive: true })
  const file = join(folder, 'communities.jsonl')
  // Reads the file on every call, because another process may have written to it.
  const books = (): CommunityAction[] =>
    existsSync(file)
      ? readFileSync(file, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
          .map((line) => JSON.parse(line) as CommunityAction)
      : []
  const present = (place: Place): string[] => {
    const inside = new Set<string>()
    for (const deed of books().filter((one) => one.place === nameOf(place)))
      if (deed.did === 'admitted') inside.add(deed.account)
      else inside.delete(deed.account)
    return [...inside]
  }
  const inspect = async (place: Place) => {
    const name = nameOf(place)
    return name.includes('absent') ? 'absent' : name.includes('forbidden') ? 'forbidden' : 'ready'
  }
  const change = async (call: 'admit' | 'dismiss', place: Place, account: string): Promise<void> => {
    const trouble = misbehave(call)
    if (trouble === 'before') throw new CommunitySilent(`${call}: no answer`)
    const state = await inspect(place)
    if (state !== 'ready')
      throw new CommunityRefusal(state, state === 'absent' ? 'This place does not exist.' : 'This app may not invite people to this place.')
    if (account.includes('absent')) throw new CommunityRefusal('unknown_account', 'There is no account with this name.')
    if (present(place).includes(account) !== (call === 'admit')) {
      const deed: CommunityAction = { at: clock.wall().toISOString(), did: call === 'admit' ? 'admitted' : 'dismissed', place: nameOf(place), account }
      appendFileSync(file, `${JSON.stringify(deed)}\n`)
    }
    if (trouble === 'after') throw new CommunitySilent(`${call}: no answer`)
  }
  return {
    inspect,
    admit: (place, account) => change('admit', place, account),
    dismiss: (place, account) => change('dismiss', place, account),
    present,
    books,
  }
}
