import type { Db } from '../../platform/postgres/postgres.ts'
import type { Platform, SellerLook } from '../handlers.ts'
import { capabilities, findSeller, lookOf } from '../organizations/index.ts'
import { findSellerOfCheckout } from './checkouts/checkouts.ts'
import { sellerOfLink } from './links/following.ts'

/** Finds a seller for a page about an error, by what the address says. Undefined if it does not exist, is deleted or has no API access. */
export const findSellerLook = async (
  db: Db,
  platform: Platform,
  clue: { readonly slug: string } | { readonly id: string } | { readonly link_secret: string } | { readonly checkout_secret: string },
): Promise<SellerLook | undefined> => {
  const found =
    'link_secret' in clue
      ? await sellerOfLink(db, platform, clue.link_secret)
      : 'checkout_secret' in clue
        ? await findSellerOfCheckout(db, platform, clue.checkout_secret)
        : await findSeller(db, clue)
  return found && capabilities[found.status].api_access ? lookOf(found) : undefined
}
