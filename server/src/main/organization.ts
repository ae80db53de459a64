import { nearest } from '../kernel/nearest.ts'
import { findLivingOrganization, listSlugs } from '../modules/organizations/index.ts'
import type { Db } from '../platform/postgres/postgres.ts'
import { Usage } from './usage.ts'

const [mostCompared, mostNamed] = [500, 10]

/** Returns the organization that `--organization` names. Otherwise fails, and names the most similar slug, or the first ones. */
export const needOrganization = async (db: Db, slug: string): Promise<NonNullable<Awaited<ReturnType<typeof findLivingOrganization>>>> => {
  const found = await findLivingOrganization(db, { slug })
  if (found) return found
  const slugs = await listSlugs(db, mostCompared)
  const meant = nearest(slug, slugs)
  const named = slugs.slice(0, mostNamed).join(', ')
  const advice = meant === undefined ? ` Organizations: ${named || 'none'}${slugs.length > mostNamed ? ', …' : ''}` : ` Did you mean ${meant}?`
  throw new Usage(`there is no organization ${slug}.${advice}`)
}
