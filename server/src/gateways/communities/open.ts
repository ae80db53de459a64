import type { Clock } from '../../platform/clock.ts'
import type { Config } from '../../platform/config.ts'
import { CommunityRefusal, type Communities } from './communities.ts'
import { openLocalCommunities } from './local.ts'

/**
 * Opens GitHub, Discord and Slack for this deployment. If a folder is configured, they are simulated by
 * `openLocalCommunities`. Otherwise every call is refused, because real connections are not implemented yet.
 */
export const openCommunities = (config: Config, { clock }: { clock: Clock }): Communities => {
  if (config.communities_dir !== undefined) return openLocalCommunities({ folder: config.communities_dir, clock })
  const refuse = async (): Promise<never> => {
    throw new CommunityRefusal('forbidden', 'No connection to GitHub, Discord or Slack is set up here.')
  }
  return { inspect: async () => 'forbidden', admit: refuse, dismiss: refuse }
}
