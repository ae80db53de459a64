import { ResourceNotFound } from '@bursar/contract'
import { locales, type Locale, type MailView } from '@bursar/views'
import type { Page, PageAnswer, PageCall, Platform } from '../../modules/handlers.ts'
import { isLocal, MailboxNotLocal } from '../../platform/hosts.ts'
import { mailSamples, sampleSellers } from './mail-samples.ts'

/** The mailbox shows mails in frames. */
export const framing = { 'frame-src': ["'self'"] } as const

/** Kinds of mails that the deployment sends itself, without a seller's brand. */
const own: readonly MailView['kind'][] = [
  'sign_in_code',
  'organization_invitation',
  'token_leaked',
  'app_token_leaked',
  'client_secret_leaked',
  'app_allowed',
  'new_order',
  'new_subscription',
  'webhook_paused',
  'dispute_opened',
  'payment_account_changed',
]

/** Whether a kind of mail is sent in the name of a seller. */
export const isOfSeller = (kind: MailView['kind']): boolean => !own.includes(kind)

/** The pages that show a sample of every mail in every language. Only for development. */
export const galleryPages = ({ config, renderMail }: Platform): Page[] => {
  const places = {
    public_url: config.public_url,
    auth_url: config.auth_url,
    slug: 'acme',
    order_id: '00000000-0000-4000-8000-000000000000',
    organization_id: '00000000-0000-4000-8000-000000000000',
  }
  const { branded } = sampleSellers
  const rendered = (view: MailView, locale: Locale) =>
    renderMail(view, {
      locale,
      seller: isOfSeller(view.kind) ? branded : null,
      logo_url: isOfSeller(view.kind) ? new URL('/favicon.svg', config.public_url).href : null,
      sandbox: true,
    })
  const shownIn = (query: URLSearchParams): Locale => locales.find((locale) => locale === query.get('in')) ?? 'en'
  return [
    {
      method: 'GET',
      path: '/mailbox/gallery',
      signedIn: false,
      handle: async ({ request, query }: PageCall): Promise<PageAnswer> => {
        if (!isLocal(request)) throw new MailboxNotLocal()
        const shown = shownIn(query)
        const mails = mailSamples(shown, places).map((view, at) => {
          const { subject, text } = rendered(view, shown)
          return { kind: view.kind, subject, text, path: `/mailbox/gallery/${at}?in=${shown}` }
        })
        return { view: { kind: 'mail-gallery', shown, mails }, outside: framing }
      },
    },
    {
      method: 'GET',
      path: '/mailbox/gallery/:at',
      signedIn: false,
      handle: async ({ request, query, params }: PageCall): Promise<PageAnswer> => {
        if (!isLocal(request)) throw new MailboxNotLocal()
        const shown = shownIn(query)
        const view = mailSamples(shown, places)[Number(params.at)]
        if (!view) throw new ResourceNotFound()
        return { mail: rendered(view, shown).html }
      },
    },
  ]
}
