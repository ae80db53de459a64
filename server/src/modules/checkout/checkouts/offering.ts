import { invalidAt, InvalidRequest, type Invalid } from '@bursar/contract'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { loadProducts, type LoadedProduct } from '../../catalog/index.ts'
import { permit } from '../../organizations/index.ts'

/** Returns true if the product can be bought: it is neither archived nor a draft. */
export const isOnSale = ({ product }: LoadedProduct): boolean => !product.is_archived && product.visibility !== 'draft'

/**
 * Loads the products of a checkout or link in the given order. They must be on sale and belong to one seller. The caller
 * must have permission to sell for that seller. Errors name the position of the product in the request.
 */
export const nameProducts = async (
  db: Db,
  scope: TenantScope,
  ids: readonly string[],
  place: (at: number) => (string | number)[] = (at) => ['body', 'products', at],
): Promise<LoadedProduct[]> => {
  const loaded = await loadProducts(
    db,
    ids.flatMap((id) => organizationIds(scope).map((tenant) => ({ tenant, id }))),
  )
  const problems: Invalid[] = ids.flatMap((id, at) => {
    const found = loaded.find(({ product }) => product.id === id)
    if (!found) return [invalidAt(place(at), 'There is no product with this id.', id)]
    if (found.product.is_archived) return [invalidAt(place(at), 'This product is archived.', id)]
    return isOnSale(found) ? [] : [invalidAt(place(at), 'This product is a draft. Change its visibility first.', id)]
  })
  if (problems.length > 0) throw new InvalidRequest(problems)
  const products = ids.map((id) => loaded.find(({ product }) => product.id === id)!)
  const { organization_id } = products[0]!.product
  const unmatched = products.findIndex(({ product }) => product.organization_id !== organization_id)
  if (unmatched > 0) throw new InvalidRequest(invalidAt(place(unmatched), 'All products of a checkout must belong to one organization.', ids[unmatched]))
  permit(scope, organization_id, 'sales:manage')
  return products
}
