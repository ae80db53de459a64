import { invalidAt, InvalidRequest, type Invalid } from '@bursar/contract'
import { organizationIds, type Reach } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { loadProducts, type LoadedProduct } from '../../catalog/index.ts'
import { permit } from '../../organizations/index.ts'

/** Whether somebody who knows of it may buy it. */
export const isOnSale = ({ product }: LoadedProduct): boolean => !product.is_archived && product.visibility !== 'draft'

/** The products of an offer, in the order they are named: on sale, and of one seller, for whom the caller may sell. What is wrong is told by its place. */
export const nameProducts = async (
  db: Db,
  reach: Reach,
  ids: readonly string[],
  place: (at: number) => (string | number)[] = (at) => ['body', 'products', at],
): Promise<LoadedProduct[]> => {
  const loaded = await loadProducts(
    db,
    ids.flatMap((id) => organizationIds(reach).map((tenant) => ({ tenant, id }))),
  )
  const problems: Invalid[] = ids.flatMap((id, at) => {
    const found = loaded.find(({ product }) => product.id === id)
    if (!found) return [invalidAt(place(at), 'There is no product with this id.', id)]
    if (found.product.is_archived) return [invalidAt(place(at), 'This product is archived.', id)]
    return isOnSale(found) ? [] : [invalidAt(place(at), 'This product is a draft.', id)]
  })
  if (problems.length > 0) throw new InvalidRequest(problems)
  const products = ids.map((id) => loaded.find(({ product }) => product.id === id)!)
  const { organization_id } = products[0]!.product
  const stray = products.findIndex(({ product }) => product.organization_id !== organization_id)
  if (stray > 0) throw new InvalidRequest(invalidAt(place(stray), 'All products of an offer belong to one organization.', ids[stray]))
  permit(reach, organization_id, 'sales:manage')
  return products
}
