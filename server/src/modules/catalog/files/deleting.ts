import { benefitUpdated, productUpdated } from '@bursar/contract'
import type { Reach } from '../../../kernel/actors.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { dropAvatar } from '../../organizations/index.ts'
import { changeBenefit, lockBenefit } from '../benefits/benefits.sql.ts'
import { present as presentBenefit } from '../benefits/benefits.ts'
import { changeProduct, loadProducts, lockProduct } from '../products/products.sql.ts'
import { present as presentProduct } from '../products/products.ts'
import { hold } from './files.ts'
import { benefitsWith, changeFile, leaveBenefit, leaveProduct, productsWith } from './files.sql.ts'

/**
 * The file is gone from every benefit and product at once, and nobody can download it any more. Its object goes after
 * that is committed, by the sweep: what is undone here has lost nothing. The file is held first, then what it is in.
 */
export const remove = async (tx: Tx, reach: Reach, id: string): Promise<void> => {
  const file = await hold(tx, reach, id)
  const { organization_id } = file
  const now = tx.clock.business()
  for (const benefit_id of await benefitsWith(tx, file)) {
    const benefit = await lockBenefit(tx, reach, benefit_id)
    const { files, archived } = (benefit?.properties ?? { files: [], archived: {} }) as { files: string[]; archived: Record<string, boolean> }
    // Deleted, or without it, since.
    if (!benefit || !files.includes(id)) continue
    await leaveBenefit(tx, file, benefit_id)
    const { [id]: _, ...others } = archived
    const changed = await changeBenefit(tx, benefit, { modified_at: now, properties: { files: files.filter((one) => one !== id), archived: others } })
    await emit(tx, benefitUpdated, { organization_id, resource_id: benefit_id }, presentBenefit(changed))
    await enqueue(tx, 'entitlements.benefit_changed', { organization_id, benefit_id })
  }
  for (const product_id of await productsWith(tx, file)) {
    const product = await lockProduct(tx, reach, product_id)
    if (!product || !(await leaveProduct(tx, file, product_id))) continue
    await changeProduct(tx, product, { modified_at: now })
    const [loaded] = await loadProducts(tx, [{ tenant: organization_id, id: product_id }])
    await emit(tx, productUpdated, { organization_id, resource_id: product_id }, presentProduct(loaded!))
  }
  if (file.service === 'organization_avatar') await dropAvatar(tx, reach, organization_id, file.public_url!)
  await changeFile(tx, file, { deleted_at: now, due_at: tx.clock.wall() })
}
