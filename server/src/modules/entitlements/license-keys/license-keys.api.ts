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
  ResourceNotFound,
  rotateLicenseKey,
  rotatePortalLicenseKey,
  signLicenseKey,
  updateLicenseKey,
  validateLicenseKey,
  validatePortalLicenseKey,
} from '@bursar/contract'
import { seconds } from '../../../platform/clock.ts'
import { read, write, type Implementation, type Platform } from '../../handlers.ts'
import { noticeFiltered } from '../../customers/index.ts'
import { confine } from '../../organizations/index.ts'
import * as licenseKeys from './license-keys.ts'
import { listKeys, listOwnKeys, type ActivationRow, type KeyWithActivations, type LoadedKey } from '../records/license-keys.sql.ts'
import { keysMayBeCached, publishedLicenceKeys, signLicence } from './offline.ts'
import { presentActivation, presentKey, showKey, viewerOf, type Viewer } from './presenting.ts'
import { activateKey, deactivate, scopeOfSeller, validate } from './using.ts'

const withActivations = (platform: Platform, { activations, ...loaded }: KeyWithActivations, viewer: Viewer) => ({
  ...presentKey(platform, loaded, viewer),
  activations: activations.map(presentActivation),
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
  read(listLicenseKeys, async (db, { scope, query, platform }) => {
    const { items, total, next_cursor } = await listKeys(db, confine(scope, 'customers:read'), query)
    if (query.customer_id.length > 0)
      noticeFiltered(
        scope,
        items.map(({ key }) => key),
      )
    return paginate(
      query,
      items.map((loaded) => presentKey(platform, loaded, 'seller')),
      total,
      next_cursor,
    )
  }),
  read(getLicenseKey, async (db, { scope, params, platform }) =>
    withActivations(platform, await licenseKeys.requireLicenseKey(db, scope, params.id), 'seller'),
  ),
  write(updateLicenseKey, async (tx, { scope, params, body, platform }) => {
    const changed = await licenseKeys.updateLicenseKey(tx, scope, platform, await licenseKeys.findManaged(tx, scope, params.id), body)
    return showKey(tx, changed.scope, platform, changed.key, 'seller')
  }),
  read(getLicenseKeyActivation, async (db, { scope, params, platform }) => {
    const loaded = await licenseKeys.requireLicenseKey(db, scope, params.id, params.activation_id)
    const [activation] = loaded.activations
    if (!activation) throw new ResourceNotFound()
    return activated(platform, { loaded, activation }, 'seller')
  }),
  write(rotateLicenseKey, async (tx, { scope, params, platform }) => {
    const changed = await licenseKeys.rotate(tx, scope, platform, await licenseKeys.findManaged(tx, scope, params.id), 'seller')
    return showKey(tx, changed.scope, platform, changed.key, 'seller')
  }),
  write(signLicenseKey, async (tx, { scope, params, body, platform }) =>
    signLicence(tx, scope, platform, await licenseKeys.findManaged(tx, scope, params.id), body.activation_id ?? null),
  ),
  read(listLicenceSigningKeys, async (db, { reply }) => {
    reply['cache-control'] = `public, max-age=${keysMayBeCached / seconds}`
    return { keys: await publishedLicenceKeys(db) }
  }),
  write(validateLicenseKey, async (tx, { scope, body, platform }) =>
    validated(platform, await validate(tx, scopeOfSeller(scope, body.organization_id), platform, body), 'seller'),
  ),
  write(activateLicenseKey, async (tx, { scope, body, platform }) =>
    activated(platform, await activateKey(tx, scopeOfSeller(scope, body.organization_id), platform, body), 'seller'),
  ),
  write(deactivateLicenseKey, (tx, { scope, body, platform }) => deactivate(tx, scopeOfSeller(scope, body.organization_id), platform, body)),

  read(listPortalLicenseKeys, async (db, { actor, scope, query, platform }) => {
    const { items, total, next_cursor } = await listOwnKeys(db, scope, actor, query)
    return paginate(
      query,
      items.map((loaded) => presentKey(platform, loaded, viewerOf(actor))),
      total,
      next_cursor,
    )
  }),
  read(getPortalLicenseKey, async (db, { actor, scope, params, platform }) =>
    withActivations(platform, await licenseKeys.requireOwnKey(db, scope, actor, params.id), viewerOf(actor)),
  ),
  write(rotatePortalLicenseKey, async (tx, { actor, scope, params, platform }) => {
    const changed = await licenseKeys.rotate(tx, scope, platform, await licenseKeys.findOwn(tx, scope, actor, params.id), 'holder')
    return showKey(tx, changed.scope, platform, changed.key, viewerOf(actor))
  }),
  // An anonymous bearer of a key may use the key, but must not see the payer's personal data.
  write(validatePortalLicenseKey, async (tx, { body, platform }) => validated(platform, await validate(tx, 'bearer', platform, body), 'bearer')),
  write(activatePortalLicenseKey, async (tx, { body, platform }) => activated(platform, await activateKey(tx, 'bearer', platform, body), 'bearer')),
  write(deactivatePortalLicenseKey, async (tx, { body, platform }) => deactivate(tx, 'bearer', platform, body)),
]
