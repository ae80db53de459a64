import type { Deps } from '../../handlers.ts'
import { mailCustomer, sceneOf } from '../../billing/index.ts'
import { portalUrl } from '../../organizations/index.ts'
import { mailedFrom } from './thresholds.ts'
import { findThreshold } from './thresholds.sql.ts'

/** Mails that usage has reached a threshold. Does nothing if the limit was raised since, or a new period has begun. */
export const mailUsageThreshold = async (deps: Deps, about: { organization_id: string; threshold_id: string }): Promise<void> => {
  const { db, platform } = deps
  const scene = await sceneOf(db, about.organization_id)
  const reached = scene && (await findThreshold(db, about.organization_id, about.threshold_id))
  if (!reached || reached.percent < mailedFrom) return
  const { seller } = scene
  const { customer_id, meter, ...told } = reached
  const { show } = seller.customer_portal_settings.usage
  const { name, unit, custom_label, custom_multiplier } = meter
  await mailCustomer(deps, scene, customer_id, 'usage_threshold', {
    kind: 'usage_threshold',
    ...told,
    meter: { meter: name, unit, custom_label, custom_multiplier },
    // A seller can hide the usage page. The overview exists always.
    has_usage_page: show,
    portal_url: portalUrl(platform, seller, show ? '/usage' : '/overview'),
  })
}
