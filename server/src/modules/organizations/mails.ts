import type { MailView } from '@bursar/views'
import { languageOf, type Language } from '../../kernel/languages.ts'
import { RecipientRejected } from '../../gateways/mail/mail.ts'
import { newId } from '../../kernel/ids.ts'
import type { Deps } from '../handlers.ts'
import { brandOf } from './brand.ts'
import { recordRejection, suppressionOf, trackMail } from './mail-reports/mail-reports.ts'
import type { OrganizationRow } from './organizations/organizations.sql.ts'

type Seller = Parameters<typeof brandOf>[0] & Pick<OrganizationRow, 'sender_address'>

export type Addressed = {
  readonly to: string
  readonly language: Language
  readonly view: MailView
  /** The order that the mail is about. The timeline of the order lists the mail. */
  readonly order_id?: string
} & (
  | {
      /** The seller in whose name the mail is sent. */
      readonly seller: Seller
      /** The customers whose erasure erases the address. */
      readonly customer_ids: readonly string[]
    }
  /** A mail of the deployment itself. */
  | { readonly seller: null }
)

/**
 * Renders a mail and sends it. A mail of a seller has the seller's name as sender, and the seller's address for replies. Sends nothing
 * if mails to the address are suppressed, or if its person was erased. If the mail server rejects the recipient for good, this is recorded, and the job is done.
 */
export const sendMail = async (deps: Deps, { to, language, view, order_id, ...whose }: Addressed): Promise<void> => {
  const { db, transact, gateways, platform } = deps
  const { seller } = whose
  const customer_ids = whose.seller === null ? [] : whose.customer_ids
  const sent = { id: newId(platform.clock.wall()), organization_id: seller?.id ?? null, mail: view.kind, address: to, order_id: order_id ?? null, customer_ids }
  // The log names no address.
  const noted = { mail: sent.mail, mail_id: sent.id, ...(seller ? { organization_id: seller.id } : {}) }
  const suppressed = await suppressionOf(db, sent, platform.clock.wall())
  if (suppressed !== undefined) return platform.log.info('mail_suppressed', { ...noted, reason: suppressed })
  const brand = seller && brandOf(seller)
  const { public_url, environment } = platform.config
  const logo = brand?.logo && brand.logo.content_type !== 'image/svg+xml' ? brand.logo : null
  const logo_url = logo && new URL(logo.path, public_url).href
  const rendered = platform.renderMail(view, { locale: language, seller: brand, logo_url, sandbox: environment === 'sandbox' })
  const tracked = await trackMail(deps, sent)
  if (tracked === 'erased') return platform.log.info('mail_suppressed', { ...noted, reason: tracked })
  try {
    await gateways.mail.send({
      ...rendered,
      to,
      from_name: brand?.name,
      from_address: seller?.sender_address ?? undefined,
      reply_to: brand?.support_email ?? undefined,
      tracked,
    })
  } catch (error) {
    if (!(error instanceof RecipientRejected)) throw error
    await transact((tx) => recordRejection(tx, sent, error.message))
    platform.log.info('mail_rejected', noted)
  }
}

/** The language in which the people of a seller are addressed. */
export const languageOfSeller = ({ country }: Pick<OrganizationRow, 'country'>): Language => languageOf(null, country)

/** Returns the address of a page of the account area. */
export const accountUrl = ({ config }: Deps['platform'], path: `/${string}`): string => new URL(path, config.auth_url).href

/** Returns the address of a page of the portal or checkout of a seller. */
export const portalUrl = ({ config }: Deps['platform'], { slug }: Pick<OrganizationRow, 'slug'>, path = ''): string =>
  new URL(`/${slug}/portal${path}`, config.public_url).href
