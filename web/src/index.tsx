import { readFileSync } from 'node:fs'
import type { Frame, View } from '@bursar/contract'
import { renderToStaticMarkup } from 'react-dom/server'
import { Apps, Leaving, Mailbox, Problem, Security, Tokens } from './pages/account.tsx'
import { Checkout } from './pages/checkout.tsx'
import { Claim, ClaimReady, ClaimUnknown } from './pages/claim.tsx'
import { Consent } from './pages/consent.tsx'
import { Billing } from './pages/portal-billing.tsx'
import { OrderPage, Orders } from './pages/portal-orders.tsx'
import { Overview } from './pages/portal-overview.tsx'
import { Subscriptions } from './pages/portal-subscriptions.tsx'
import { InvitedAlone, Team } from './pages/portal-team.tsx'
import { PortalEmail, PortalEnter, PortalSignIn } from './pages/portal-entry.tsx'
import { Access, Account, Forbidden } from './pages/portal-own.tsx'
import { Bank, CheckoutClosed, Purchase } from './pages/purchase.tsx'
import { SignIn } from './pages/sign-in.tsx'

/** One page as text: what it shows goes in, HTML comes out. */
export const render = (view: View, frame: Frame): string => `<!doctype html>${renderToStaticMarkup(pageOf(view, frame))}`

const pageOf = (view: View, frame: Frame) => {
  switch (view.kind) {
    case 'sign-in':
      return <SignIn view={view} frame={frame} />
    case 'consent':
      return <Consent view={view} frame={frame} />
    case 'apps':
      return <Apps view={view} frame={frame} />
    case 'tokens':
      return <Tokens view={view} frame={frame} />
    case 'security':
      return <Security view={view} frame={frame} />
    case 'mailbox':
      return <Mailbox view={view} frame={frame} />
    case 'checkout':
      return <Checkout view={view} frame={frame} />
    case 'bank':
      return <Bank view={view} frame={frame} />
    case 'purchase':
      return <Purchase view={view} frame={frame} />
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
    case 'portal-orders':
      return <Orders view={view} frame={frame} />
    case 'portal-order':
      return <OrderPage view={view} frame={frame} />
    case 'portal-billing':
      return <Billing view={view} frame={frame} />
    case 'problem':
      return <Problem view={view} frame={frame} />
  }
}

/** The one stylesheet of all pages. */
export const stylesheet = (): string => readFileSync(new URL('../src/app.css', import.meta.url), 'utf8')

/** The one script, of the pages that are better with one. */
export const script = (): string => readFileSync(new URL('../src/app.js', import.meta.url), 'utf8')

/** What joins the checkout to the processor's own form; sent only where there is one. */
export const processorScript = (): string => readFileSync(new URL('../src/stripe.js', import.meta.url), 'utf8')

/** Amber where nothing is real. */
export const icon = (sandbox: boolean): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="${sandbox ? '#b45309' : '#1f4d3f'}"/><path d="M10 6h8a5 5 0 0 1 2.6 9.3A5.6 5.6 0 0 1 18.4 26H10zm4 4v4h3.4a2 2 0 0 0 0-4zm0 8v4h4a2 2 0 0 0 0-4z" fill="#fff"/></svg>`
