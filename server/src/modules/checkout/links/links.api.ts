import { inWallTime } from '../../../platform/clocks.sql.ts'
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
import * as links from './links.ts'

export const operations = [
  read(listCheckoutLinks, async (db, { scope, query, platform }) => {
    const { items, total, next_cursor } = await listLinks(db, confine(scope, 'sales:read'), query)
    return paginate(
      query,
      items.map((one) => links.presentCheckoutLink(one, platform)),
      total,
      next_cursor,
    )
  }),
  write(createCheckoutLink, async (tx, { scope, body, platform }) =>
    links.presentCheckoutLink(await links.createCheckoutLink(inWallTime(tx), scope, platform, body), platform),
  ),
  read(getCheckoutLink, async (db, { scope, params, platform }) => {
    const link = await findLink(db, confine(scope, 'sales:read'), params.id)
    if (!link) throw new ResourceNotFound()
    return links.presentCheckoutLink(link, platform)
  }),
  write(updateCheckoutLink, async (tx, { scope, params, body, platform }) =>
    links.presentCheckoutLink(await links.updateCheckoutLink(inWallTime(tx), scope, params.id, body), platform),
  ),
  write(deleteCheckoutLink, (tx, { scope, params }) => links.deleteCheckoutLink(inWallTime(tx), scope, params.id)),
  write(followCheckoutLink, async (tx, { params, raw, reply, platform, showsSeller }) => {
    reply.location = await follow(tx, platform, params.client_secret, raw.query, showsSeller)
  }),
]

export const jobs = [job('checkout.product_archived', links.productArchived)]
