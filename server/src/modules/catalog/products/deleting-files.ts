import { benefitUpdated, productUpdated } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { inWallTime } from '../../../platform/clocks.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { dropAvatar } from '../../organizations/index.ts'
import { changeBenefit, lockBenefit } from '../benefits/benefits.sql.ts'
import { presentBenefit } from '../benefits/benefits.ts'
import { changeProduct, lockProduct } from './products.sql.ts'
import { presentProduct } from './products.ts'
import { requireLockedFile } from '../files/files.ts'
import { benefitsWith, changeFile, leaveBenefit, leaveProduct, productsWith } from '../files/files.sql.ts'

/**
 * Deletes the file and removes it from all benefits and products. A sweep deletes the object from the store after the
 * commit, so that a rollback loses no data. Lock the file first, then the benefits and products that contain it.
 */
export const deleteFile = async (tx: Tx, scope: TenantScope, id: string): Promise<void> => {
  const file = await requireLockedFile(tx, scope, id)
  const { organization_id } = file
  const now = tx.clock.wall()
  for (const benefit_id of await benefitsWith(tx, file)) {
    const benefit = await lockBenefit(tx, scope, benefit_id)
    const { files, archived } = (benefit?.properties ?? { files: [], archived: {} }) as { files: string[]; archived: Record<string, boolean> }
    // The benefit was deleted, or the file was removed from it, before the lock was acquired.
    if (!benefit || !files.includes(id)) continue
    await leaveBenefit(tx, file, benefit_id)
    const { [id]: _, ...others } = archived
    const changed = await changeBenefit(tx, benefit, { modified_at: now, properties: { files: files.filter((one) => one !== id), archived: others } })
    await emit(inWallTime(tx), benefitUpdated, { organization_id, resource_id: benefit_id }, presentBenefit(changed))
    await enqueue(tx, 'entitlements.benefit_changed', { organization_id, benefit_id })
  }
  for (const product_id of await productsWith(tx, file)) {
    const product = await lockProduct(tx, scope, product_id)
    if (!product || !(await leaveProduct(tx, file, product_id))) continue
    const changed = await changeProduct(tx, product, { modified_at: now })
    await emit(inWallTime(tx), productUpdated, { organization_id, resource_id: product_id }, presentProduct(changed))
  }
  if (file.service === 'organization_avatar') await dropAvatar(tx, scope, organization_id, file.public_url!)
  await changeFile(tx, file, { deleted_at: now, due_at: tx.clock.wall() })
}
