import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../platform/clock.ts'
import { CommunityRefusal, CommunitySilent, type Communities, type Place } from './communities.ts'

/** One line of the stand-in's own record: what it did, not what it was asked. */
export interface Deed {
  readonly at: string
  readonly did: 'admitted' | 'dismissed'
  readonly place: string
  readonly account: string
}

export interface LocalCommunities extends Communities {
  /** Who is where, by its own record. */
  readonly present: (place: Place) => readonly string[]
  readonly books: () => readonly Deed[]
}

interface LocalOptions {
  /** Where it keeps its record, so that it outlives the process. */
  readonly folder: string
  readonly clock: Clock
  /** Falls silent before or after what it was asked to do. */
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
 * GitHub, Discord and Slack of the sandbox: a stand-in that keeps its own record on disk. Places and accounts that
 * contain `absent` do not exist, places that contain `forbidden` do not let us in.
 */
export const openLocalCommunities = ({ folder, clock, misbehave = () => undefined }: LocalOptions): LocalCommunities => {
  mkdirSync(folder, { recursive: true })
  const file = join(folder, 'communities.jsonl')
  // Read each time: another process may have written.
  const books = (): Deed[] =>
    existsSync(file)
      ? readFileSync(file, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
          .map((line) => JSON.parse(line) as Deed)
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
    if (state !== 'ready') throw new CommunityRefusal(state, state === 'absent' ? 'There is no such place.' : 'We may not let people in there.')
    if (account.includes('absent')) throw new CommunityRefusal('unknown_account', 'There is nobody of this name.')
    if (present(place).includes(account) !== (call === 'admit')) {
      const deed: Deed = { at: clock.wall().toISOString(), did: call === 'admit' ? 'admitted' : 'dismissed', place: nameOf(place), account }
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
