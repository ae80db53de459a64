import { readFileSync } from 'node:fs'
import type { Frame, View } from '@bursar/views'
import { renderToStaticMarkup } from 'react-dom/server'
import { Apps } from './account/apps/apps.tsx'
import { Consent } from './account/consent/consent.tsx'
import { Docs } from './account/docs/docs.tsx'
import { Reference } from './account/docs/reference.tsx'
import { Invitation } from './account/invitation/invitation.tsx'
import { MailGallery } from './account/mailbox/gallery.tsx'
import { Mailbox } from './account/mailbox/mailbox.tsx'
import { Security } from './account/security/security.tsx'
import { SignIn } from './account/sign-in/sign-in.tsx'
import { Tokens } from './account/tokens/tokens.tsx'
import { Away } from './checkout/away/away.tsx'
import { Bank } from './checkout/bank/bank.tsx'
import { Checkout } from './checkout/checkout/checkout.tsx'
import { Claim, ClaimReady, ClaimUnknown } from './checkout/claim/claim.tsx'
import { CheckoutClosed } from './checkout/closed/closed.tsx'
import { LinkPreview } from './checkout/preview/preview.tsx'
import { Purchase } from './checkout/purchase/purchase.tsx'
import { clientFiles, type ClientFile } from './dashboard/client.ts'
import { Dashboard, DashboardClosed } from './dashboard/dashboard.tsx'
import { Leaving } from './kit/leaving/leaving.tsx'
import { Problem } from './kit/problem/problem.tsx'
import { Billing } from './portal/billing/billing.tsx'
import { PortalEmail, PortalEnter, PortalSignIn } from './portal/entry/entry.tsx'
import { OrderPage, Orders } from './portal/orders/orders.tsx'
import { Overview } from './portal/overview/overview.tsx'
import { Access, Account, Forbidden } from './portal/own/own.tsx'
import { Subscriptions } from './portal/subscriptions/subscriptions.tsx'
import { InvitedAlone, Team } from './portal/team/team.tsx'
import { Usage } from './portal/usage/usage.tsx'

export { buttonColors, contrastOf } from './mails/colors.ts'
export { renderMail } from './mails/index.tsx'

/** Renders one page to HTML. */
export const render = (view: View, frame: Frame): string => `<!doctype html>${renderToStaticMarkup(pageOf(view, frame))}`

const pageOf = (view: View, frame: Frame) => {
  switch (view.kind) {
    case 'sign-in':
      return <SignIn view={view} frame={frame} />
    case 'consent':
      return <Consent view={view} frame={frame} />
    case 'docs':
      return <Docs view={view} frame={frame} />
    case 'reference':
      return <Reference view={view} frame={frame} />
    case 'apps':
      return <Apps view={view} frame={frame} />
    case 'tokens':
      return <Tokens view={view} frame={frame} />
    case 'security':
      return <Security view={view} frame={frame} />
    case 'mailbox':
      return <Mailbox view={view} frame={frame} />
    case 'mail-gallery':
      return <MailGallery view={view} frame={frame} />
    case 'invitation':
      return <Invitation view={view} frame={frame} />
    case 'checkout':
      return <Checkout view={view} frame={frame} />
    case 'away':
      return <Away view={view} frame={frame} />
    case 'bank':
      return <Bank view={view} frame={frame} />
    case 'purchase':
      return <Purchase view={view} frame={frame} />
    case 'link-preview':
      return <LinkPreview view={view} frame={frame} />
    case 'checkout-closed':
      return <CheckoutClosed view={view} frame={frame} />
    case 'leaving':
      return <Leaving view={view} frame={frame} />
    case 'claim':
      return <Claim view={view} frame={frame} />
    case 'claim-unknown':
      return <ClaimUnknown view={view} frame={frame} />
    case 'claim-ready':
      return <ClaimReady view={view} frame={frame} />
    case 'portal-enter':
      return <PortalEnter view={view} frame={frame} />
    case 'portal-sign-in':
      return <PortalSignIn view={view} frame={frame} />
    case 'portal-email':
      return <PortalEmail view={view} frame={frame} />
    case 'portal-access':
      return <Access view={view} frame={frame} />
    case 'portal-account':
      return <Account view={view} frame={frame} />
    case 'portal-forbidden':
      return <Forbidden view={view} frame={frame} />
    case 'portal-overview':
      return <Overview view={view} frame={frame} />
    case 'portal-team':
      return <Team view={view} frame={frame} />
    case 'portal-invited':
      return <InvitedAlone view={view} frame={frame} />
    case 'portal-subscriptions':
      return <Subscriptions view={view} frame={frame} />
    case 'portal-usage':
      return <Usage view={view} frame={frame} />
    case 'portal-orders':
      return <Orders view={view} frame={frame} />
    case 'portal-order':
      return <OrderPage view={view} frame={frame} />
    case 'portal-billing':
      return <Billing view={view} frame={frame} />
    case 'dashboard':
      return <Dashboard view={view} frame={frame} />
    case 'dashboard-closed':
      return <DashboardClosed view={view} frame={frame} />
    case 'problem':
      return <Problem view={view} frame={frame} />
  }
}

/** The stylesheet of all pages. */
export const stylesheet = (): string => readFileSync(new URL('./assets/app.css', import.meta.url), 'utf8')

/** The script that submits forms without leaving the page and polls for changes. Only some pages include it. */
export const script = (): string => readFileSync(new URL('./assets/app.js', import.meta.url), 'utf8')

/** The script that connects a page to the payment processor's form. Only pages with such a form include it. */
export const processorScript = (): string => readFileSync(new URL('./assets/stripe.js', import.meta.url), 'utf8')

/** The built files of the dashboard, by their URL. */
export const dashboardFiles = (): Readonly<Record<string, ClientFile>> => clientFiles()

/** The fonts of the pages, by their names in the stylesheet: Geist for western and central European languages. */
export const fonts = (): Readonly<Record<string, Buffer>> =>
  Object.fromEntries(['geist-latin.woff2', 'geist-latin-ext.woff2'].map((name) => [name, readFileSync(new URL(`./assets/${name}`, import.meta.url))]))

/** Returns the favicon as SVG: green in production, amber in the sandbox. */
export const icon = (sandbox: boolean): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="${sandbox ? '#b45309' : '#1f4d3f'}"/><path d="M10 6h8a5 5 0 0 1 2.6 9.3A5.6 5.6 0 0 1 18.4 26H10zm4 4v4h3.4a2 2 0 0 0 0-4zm0 8v4h4a2 2 0 0 0 0-4z" fill="#fff"/></svg>`
