import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import { CommunityRefusal, type Communities } from './communities.ts'
import { openLocalCommunities } from './local.ts'

/** GitHub, Discord and Slack of this deployment: in a sandbox with a folder the stand-in that keeps its record there, elsewhere none that is built in yet. */
export const openCommunities = (config: Config, { clock }: { clock: Clock }): Communities => {
  if (config.communities_dir !== undefined) return openLocalCommunities({ folder: config.communities_dir, clock })
  const refuse = async (): Promise<never> => {
    throw new CommunityRefusal('forbidden', 'No connection to GitHub, Discord or Slack is set up here.')
  }
  return { inspect: async () => 'forbidden', admit: refuse, dismiss: refuse }
}
