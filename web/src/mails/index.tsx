import type { MailFrame, MailView, RenderedMail } from '@bursar/views'
import { renderToStaticMarkup } from 'react-dom/server'
import * as account from './account/account.ts'
import type { Content } from './content.ts'
import { MailDocument } from './document.tsx'
import * as merchant from './merchant/merchant.ts'
import * as orders from './orders/orders.ts'
import { plainOf } from './plain.ts'
import * as seats from './seats/seats.ts'
import * as subscriptions from './subscriptions/subscriptions.ts'

/** Renders one mail as HTML and as plain text. Both are made from the same content. */
export const renderMail = (view: MailView, frame: MailFrame): RenderedMail => {
  const content = contentOf(view, frame)
  return {
    subject: content.subject,
    html: `<!doctype html>${renderToStaticMarkup(<MailDocument content={content} frame={frame} />)}`,
    text: plainOf(content, frame),
  }
}

const contentOf = (view: MailView, frame: MailFrame): Content => {
  switch (view.kind) {
    case 'receipt':
      return orders.receipt(view, frame)
    case 'free_order':
      return orders.freeOrder(view, frame)
    case 'payment_failed':
      return orders.paymentFailed(view, frame)
    case 'refund':
      return orders.refund(view, frame)
    case 'dispute':
      return orders.dispute(view, frame)
    case 'trial_started':
      return subscriptions.trialStarted(view, frame)
    case 'trial_ending':
    case 'renewal_reminder':
      return subscriptions.chargeAhead(view, frame)
    case 'subscription_canceled':
      return subscriptions.canceled(view, frame)
    case 'subscription_uncanceled':
      return subscriptions.uncanceled(view, frame)
    case 'subscription_ended':
      return subscriptions.ended(view, frame)
    case 'subscription_paused':
      return subscriptions.paused(view, frame)
    case 'subscription_resumed':
      return subscriptions.resumed(view, frame)
    case 'seats_changed':
      return subscriptions.seatsChanged(view, frame)
    case 'plan_changed':
      return subscriptions.planChanged(view, frame)
    case 'card_expiring':
      return subscriptions.cardExpiring(view, frame)
    case 'usage_threshold':
      return subscriptions.usageThreshold(view, frame)
    case 'seat_invitation':
      return seats.seatInvitation(view, frame)
    case 'seat_revoked':
      return seats.seatRevoked(view, frame)
    case 'seat_requested':
      return seats.seatRequested(view, frame)
    case 'customer_code':
    case 'sign_in_code':
      return account.code(view, frame)
    case 'email_change':
      return account.emailChange(view, frame)
    case 'email_changed':
      return account.emailChanged(view, frame)
    case 'customer_session_leaked':
      return account.sessionLeaked(view, frame)
    case 'organization_invitation':
      return account.organizationInvitation(view, frame)
    case 'token_leaked':
      return account.tokenLeaked(view, frame)
    case 'app_token_leaked':
      return account.appTokenLeaked(view, frame)
    case 'client_secret_leaked':
      return account.clientSecretLeaked(view, frame)
    case 'app_allowed':
      return account.appAllowed(view, frame)
    case 'new_order':
      return merchant.newOrder(view, frame)
    case 'new_subscription':
      return merchant.newSubscription(view, frame)
    case 'webhook_paused':
      return merchant.webhookPaused(view, frame)
    case 'dispute_opened':
      return merchant.disputeOpened(view, frame)
    case 'payment_account_changed':
      return merchant.paymentAccountChanged(view, frame)
  }
}
