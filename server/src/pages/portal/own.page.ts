import {
  deactivatePortalLicenseKey,
  getPortalCustomer,
  getPortalLicenseKey,
  listDownloadables,
  listPortalBenefitGrants,
  requestEmailUpdate,
  rotatePortalLicenseKey,
  type Received,
} from '@bursar/contract'
import type { OwnKey, PortalOwnView } from '@bursar/views'
import type { Page, PageAnswer, Platform } from '../../modules/handlers.ts'
import { complaintsOf, problem } from '../visits.ts'
import { inPortal, type Visit } from './entering.ts'

type Grant = Received<typeof listPortalBenefitGrants>['items'][number]
type Access = Extract<PortalOwnView, { kind: 'portal-access' }>

/** Loads the reader's own grants, without those of other team members that a manager may see. */
const ownGrants = async ({ api, who }: Visit): Promise<Grant[]> =>
  (await api.call(listPortalBenefitGrants, { query: { ...(who.member_id === null ? {} : { member_id: [who.member_id] }), limit: 100 } })).items

const keyIn = (grant: Grant): string | undefined => (grant.benefit_type === 'license_keys' ? grant.properties.license_key_id : undefined)

/** Loads the files of benefits. A manager sees those of the whole team, so duplicates are removed. */
const filesOf = async ({ api }: Visit, benefit_id: readonly string[]) => {
  if (benefit_id.length === 0) return []
  const { items } = await api.call(listDownloadables, { query: { benefit_id: [...benefit_id], limit: 100 } })
  return [...new Map(items.map((one) => [`${one.benefit_id} ${one.file.id}`, one])).values()]
}

const placeOf = ({ benefit }: Grant): string | null =>
  benefit.type === 'github_repository' ? `${benefit.properties.repository_owner}/${benefit.properties.repository_name}` : null

const otherOf = (grant: Grant): Access['others'][number] => ({
  id: grant.id,
  type: grant.benefit_type,
  description: grant.benefit.description,
  note: grant.benefit.type === 'custom' ? grant.benefit.properties.note : null,
  place: placeOf(grant),
  state: grant.is_granted ? 'ready' : grant.error === null ? 'waits' : 'stuck',
  problem: grant.is_granted || grant.error === null ? null : { loc: [], type: grant.error.type, msg: grant.error.message },
})

/** Shows the reader's benefits. License keys are masked, except the one that the reader asked to see. */
const access = async (visit: Visit, revealed: string | null = null): Promise<PageAnswer> => {
  const { api, shell } = visit
  const grants = await ownGrants(visit)
  const shelf = [...new Set(grants.filter((grant) => grant.benefit_type === 'downloadables' && grant.is_granted).map(({ benefit_id }) => benefit_id))]
  const [customer, files, keys] = await Promise.all([
    api.call(getPortalCustomer, {}),
    filesOf(visit, shelf),
    Promise.all(
      grants.flatMap((grant) => {
        const id = keyIn(grant)
        return id === undefined ? [] : [ownKey(visit, id, grant.benefit.description, revealed)]
      }),
    ),
  ])
  const shown = (grant: Grant) => keyIn(grant) !== undefined || (grant.benefit_type === 'downloadables' && grant.is_granted)
  return {
    view: {
      kind: 'portal-access',
      shell,
      paid_by: shell.reader.manages ? null : customer.name,
      keys,
      downloads: files.map(({ id, benefit_id, file }) => ({
        id,
        benefit_id,
        name: file.name,
        version: file.version,
        size: file.size,
        sha256: file.checksum_sha256_hex,
        modified_at: file.last_modified_at,
      })),
      others: grants.filter((grant) => !shown(grant)).map(otherOf),
    },
    here: `/${shell.seller.slug}/portal/access`,
    script: true,
  }
}

const ownKey = async ({ api }: Visit, id: string, name: string, revealed: string | null): Promise<OwnKey> => {
  const { key, display_key, status, expires_at, limit_activations, activations } = await api.call(getPortalLicenseKey, { params: { id } })
  return { id, name, display_key, key: id === revealed ? key : null, status, expires_at, limit_activations, activations }
}

/** Shows a license key, removes an activation or replaces the key. Only for the reader's own keys. */
const act = async (visit: Visit): Promise<PageAnswer> => {
  const { api, call, shell } = visit
  const id = call.form.get('key') ?? ''
  // The API lets managers see the keys of their team, but this page changes only the reader's own keys.
  if (!(await ownGrants(visit)).some((grant) => keyIn(grant) === id)) return problem(404, 'not_found', visit.shell.seller)
  const action = call.form.get('action')
  if (action === 'reveal') return access(visit, id)
  const done = (what: string): PageAnswer => ({ redirect: `/${shell.seller.slug}/portal/access?done=${what}` })
  if (action === 'rotate') {
    const answer = await api.send(rotatePortalLicenseKey, { params: { id } })
    return answer.status === 200 ? done('key_rotated') : access({ ...visit, shell: { ...shell, complaints: complaintsOf(answer) } })
  }
  if (action !== 'deactivate') return problem(404, 'not_found', visit.shell.seller)
  const { key } = await api.call(getPortalLicenseKey, { params: { id } })
  const body = { key, organization_id: shell.seller.id, activation_id: call.form.get('activation') ?? '' }
  const answer = await call.api().send(deactivatePortalLicenseKey, { body })
  // An activation that is already gone counts as removed.
  return answer.status < 300 || answer.status === 404 ? done('activation_removed') : access({ ...visit, shell: { ...shell, complaints: complaintsOf(answer) } })
}

const account = async ({ api, shell, seller, session }: Visit, wished = ''): Promise<PageAnswer> => {
  const { name, billing_name, email, type } = await api.call(getPortalCustomer, {})
  return {
    view: {
      kind: 'portal-account',
      shell,
      customer: { name: billing_name ?? name, email, team: type === 'team' },
      can_change_email: shell.reader.manages && seller.customer_portal_settings.customer?.allow_email_change === true,
      wished,
      expires_at: session.expires_at,
    },
    here: `/${shell.seller.slug}/portal/account`,
    script: true,
  }
}

/** The pages for the reader's own benefits and account. */
export const ownPages = (platform: Platform): Page[] => [
  { method: 'GET', path: '/:slug/portal/access', signedIn: false, handle: inPortal(platform, (visit) => access(visit)) },
  { method: 'POST', path: '/:slug/portal/access', signedIn: false, handle: inPortal(platform, act) },
  {
    method: 'GET',
    path: '/:slug/portal/download',
    signedIn: false,
    // Creates the download URL when the link is opened, so that no page contains it.
    handle: inPortal(platform, async (visit) => {
      const { query } = visit.call
      const file = (await filesOf(visit, [query.get('benefit') ?? ''])).find(({ id }) => id === query.get('id'))
      return file ? { redirect: file.file.download.url } : problem(404, 'not_found', visit.shell.seller)
    }),
  },
  { method: 'GET', path: '/:slug/portal/account', signedIn: false, handle: inPortal(platform, (visit) => account(visit)) },
  {
    method: 'POST',
    path: '/:slug/portal/account',
    signedIn: false,
    handle: inPortal(platform, async (visit) => {
      const { api, call, shell } = visit
      const email = (call.form.get('email') ?? '').trim()
      const answer = await api.send(requestEmailUpdate, { body: { email } })
      if (answer.status === 202) return { redirect: `/${shell.seller.slug}/portal/account?done=email_requested` }
      return { ...(await account({ ...visit, shell: { ...shell, complaints: complaintsOf(answer) } }, email)), status: answer.status }
    }),
  },
]
