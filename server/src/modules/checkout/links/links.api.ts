import {
  createCheckoutLink,
  deleteCheckoutLink,
  followCheckoutLink,
  getCheckoutLink,
  listCheckoutLinks,
  paginate,
  ResourceNotFound,
  updateCheckoutLink,
} from '@bursar/contract'
import { job, read, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import { follow } from './following.ts'
import { findLink, listLinks } from './links.sql.ts'
import { create, present, productArchived, remove, update } from './links.ts'

export const operations = [
  read(listCheckoutLinks, async (db, { reach, query, platform }) => {
    const { items, total, next_cursor } = await listLinks(db, confine(reach, 'sales:read'), query)
    return paginate(
      query,
      items.map((one) => present(one, platform)),
      total,
      next_cursor,
    )
  }),
  write(createCheckoutLink, async (tx, { reach, body, platform }) => present(await create(tx, reach, platform, body), platform)),
  read(getCheckoutLink, async (db, { reach, params, platform }) => {
    const link = await findLink(db, confine(reach, 'sales:read'), params.id)
    if (!link) throw new ResourceNotFound()
    return present(link, platform)
  }),
  write(updateCheckoutLink, async (tx, { reach, params, body, platform }) => present(await update(tx, reach, params.id, body), platform)),
  write(deleteCheckoutLink, (tx, { reach, params }) => remove(tx, reach, params.id)),
  write(followCheckoutLink, async (tx, { params, raw, reply, platform }) => {
    reply.location = await follow(tx, platform, params.client_secret, raw.query)
  }),
]

export const jobs = [job('checkout.product_archived', productArchived)]
