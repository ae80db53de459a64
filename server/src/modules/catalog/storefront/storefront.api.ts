import { getPortalOrganization, ResourceNotFound } from '@bursar/contract'
import { within } from '../../../kernel/actors.ts'
import { read } from '../../handlers.ts'
import { findSeller, presentSeller } from '../../organizations/index.ts'
import { listProducts } from '../products/products.sql.ts'
import { presentProduct } from '../products/products.ts'

const onSale = { id: [], organization_id: [], benefit_id: [], is_archived: false, visibility: ['public'], page: 1, limit: 100, sorting: ['-created_at'] }

export const operations = [
  read(getPortalOrganization, async (db, { params }) => {
    const seller = await findSeller(db, params)
    if (!seller) throw new ResourceNotFound()
    const { items } = await listProducts(db, within(seller.id, 'portal', seller.member_phase), onSale)
    return { organization: presentSeller(seller), products: items.map(presentProduct) }
  }),
]
