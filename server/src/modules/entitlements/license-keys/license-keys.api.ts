import {
  activateLicenseKey,
  activatePortalLicenseKey,
  deactivateLicenseKey,
  deactivatePortalLicenseKey,
  getLicenseKey,
  getLicenseKeyActivation,
  getPortalLicenseKey,
  listLicenceSigningKeys,
  listLicenseKeys,
  listPortalLicenseKeys,
  paginate,
  rotateLicenseKey,
  rotatePortalLicenseKey,
  signLicenseKey,
  updateLicenseKey,
  validateLicenseKey,
  validatePortalLicenseKey,
} from '@bursar/contract'
import type { Reach } from '../../../kernel/actors.ts'
import { seconds } from '../../../platform/clock.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { read, write, type Implementation, type Platform } from '../../handlers.ts'
import { noticeFiltered } from '../../customers/index.ts'
import { confine } from '../../organizations/index.ts'
import { activationOf, find, findManaged, findOwn, rotate, update } from './license-keys.ts'
import { activationsOf, listKeys, listOwnKeys, type ActivationRow, type LicenseKeyRow } from './license-keys.sql.ts'
import { keysMayBeCached, publishedLicenceKeys, signLicence } from './offline.ts'
import { loadKeys, presentActivation, presentKey, showKey, viewerOf, type LoadedKey, type Viewer } from './presenting.ts'
import { activate, deactivate, reachOfBearer, reachOfSeller, validate } from './using.ts'

const show = async (db: Db, reach: Reach, platform: Platform, rows: readonly LicenseKeyRow[], viewer: Viewer) =>
  (await loadKeys(db, reach, rows)).map((loaded) => presentKey(platform, loaded, viewer))

const withActivations = async (db: Db, reach: Reach, platform: Platform, key: LicenseKeyRow, viewer: Viewer) => ({
  ...(await showKey(db, reach, platform, key, viewer)),
  activations: (await activationsOf(db, key)).map(presentActivation),
})

const validated = (platform: Platform, { loaded, activation }: { loaded: LoadedKey; activation: ActivationRow | null }, viewer: Viewer) => ({
  ...presentKey(platform, loaded, viewer),
  activation: activation && presentActivation(activation),
})

const activated = (platform: Platform, { loaded, activation }: { loaded: LoadedKey; activation: ActivationRow }, viewer: Viewer) => ({
  ...presentActivation(activation),
  license_key: presentKey(platform, loaded, viewer),
})

export const operations: Implementation[] = [
  read(listLicenseKeys, async (db, { reach, query, platform }) => {
    const { items, total, next_cursor } = await listKeys(db, confine(reach, 'customers:read'), query)
    if (query.customer_id.length > 0) noticeFiltered(reach, items)
    return paginate(query, await show(db, reach, platform, items, 'seller'), total, next_cursor)
  }),
  read(getLicenseKey, async (db, { reach, params, platform }) => withActivations(db, reach, platform, await find(db, reach, params.id), 'seller')),
  write(updateLicenseKey, async (tx, { reach, params, body, platform }) => {
    const changed = await update(tx, reach, platform, await findManaged(tx, reach, params.id), body)
    return showKey(tx, changed.reach, platform, changed.key, 'seller')
  }),
  read(getLicenseKeyActivation, async (db, { reach, params, platform }) => {
    const key = await find(db, reach, params.id)
    return activated(platform, { loaded: (await loadKeys(db, reach, [key]))[0]!, activation: await activationOf(db, key, params.activation_id) }, 'seller')
  }),
  write(rotateLicenseKey, async (tx, { reach, params, platform }) => {
    const changed = await rotate(tx, reach, platform, await findManaged(tx, reach, params.id), 'seller')
    return showKey(tx, changed.reach, platform, changed.key, 'seller')
  }),
  write(signLicenseKey, async (tx, { reach, params, body, platform }) =>
    signLicence(tx, reach, platform, await findManaged(tx, reach, params.id), body.activation_id ?? null),
  ),
  read(listLicenceSigningKeys, async (db, { reply }) => {
    reply['cache-control'] = `public, max-age=${keysMayBeCached / seconds}`
    return { keys: await publishedLicenceKeys(db) }
  }),
  write(validateLicenseKey, async (tx, { reach, body, platform }) =>
    validated(platform, await validate(tx, reachOfSeller(reach, body.organization_id), platform, body), 'seller'),
  ),
  write(activateLicenseKey, async (tx, { reach, body, platform }) =>
    activated(platform, await activate(tx, reachOfSeller(reach, body.organization_id), platform, body), 'seller'),
  ),
  write(deactivateLicenseKey, (tx, { reach, body, platform }) => deactivate(tx, reachOfSeller(reach, body.organization_id), platform, body)),

  read(listPortalLicenseKeys, async (db, { actor, reach, query, platform }) => {
    const { items, total, next_cursor } = await listOwnKeys(db, reach, actor, query)
    return paginate(query, await show(db, reach, platform, items, viewerOf(actor)), total, next_cursor)
  }),
  read(getPortalLicenseKey, async (db, { actor, reach, params, platform }) =>
    withActivations(db, reach, platform, await findOwn(db, reach, actor, params.id), viewerOf(actor)),
  ),
  write(rotatePortalLicenseKey, async (tx, { actor, reach, params, platform }) => {
    const changed = await rotate(tx, reach, platform, await findOwn(tx, reach, actor, params.id), 'holder')
    return showKey(tx, changed.reach, platform, changed.key, viewerOf(actor))
  }),
  // Whoever has a key may use it, and no more: who pays for it is not their business.
  write(validatePortalLicenseKey, async (tx, { body, platform }) =>
    validated(platform, await validate(tx, await reachOfBearer(tx, body.organization_id), platform, body), 'bearer'),
  ),
  write(activatePortalLicenseKey, async (tx, { body, platform }) =>
    activated(platform, await activate(tx, await reachOfBearer(tx, body.organization_id), platform, body), 'bearer'),
  ),
  write(deactivatePortalLicenseKey, async (tx, { body, platform }) => deactivate(tx, await reachOfBearer(tx, body.organization_id), platform, body)),
]
