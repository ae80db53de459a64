import { showPurchased, type MailFrame, type MailOf } from '@bursar/views'
import { textsIn } from '../../kit/index.ts'
import { parts, text, type Content, type Row } from '../content.ts'
import { formatsOf } from '../format.ts'
import { de, en } from './texts.ts'

const texts = { en, de }

export const newOrder = (view: MailOf<'new_order'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).order
  const { amount, day } = formatsOf(frame)
  return {
    subject: t.subject(amount(view.total), view.customer),
    title: t.title,
    before: [
      { type: 'amount', value: amount(view.total), note: t.note(view.customer) },
      {
        type: 'rows',
        title: view.organization,
        rows: parts<Row>(
          { label: t.product, value: view.description },
          view.invoice_number !== null && { label: t.invoice_number, value: view.invoice_number },
          { label: t.date, value: day(view.date) },
        ),
      },
    ],
    button: { label: t.button, href: view.home_url },
  }
}

export const newSubscription = (view: MailOf<'new_subscription'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).subscription
  const { day, price } = formatsOf(frame)
  const plan = showPurchased(frame.locale, view.plan)
  return {
    subject: t.subject(plan, view.customer),
    title: t.title,
    before: [
      {
        type: 'rows',
        title: view.organization,
        rows: parts<Row>(
          { label: t.customer, value: view.customer },
          { label: t.plan, value: plan },
          { label: t.price, value: price(view.price) },
          view.trial_end !== null && { label: t.trial, value: day(view.trial_end) },
        ),
      },
    ],
    button: { label: t.button, href: view.home_url },
  }
}

export const webhookPaused = (view: MailOf<'webhook_paused'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).webhook
  const { moment } = formatsOf(frame)
  const why = view.reason === 'gone' ? t.gone : view.failing_since === null ? t.failing_days : t.failing(moment(view.failing_since))
  return {
    subject: t.subject(view.organization),
    title: t.title,
    before: [text(`${why} ${t.text}`), { type: 'items', title: view.organization, items: [{ name: t.endpoint, values: [view.endpoint] }] }],
    button: { label: t.button, href: view.docs_url },
  }
}

export const disputeOpened = (view: MailOf<'dispute_opened'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).dispute
  const { amount, day } = formatsOf(frame)
  const rows = parts<Row>(
    view.reason !== null && { label: t.reason, value: t.reasons[view.reason] ?? view.reason.replaceAll('_', ' ') },
    view.invoice_number !== null && { label: t.invoice_number, value: view.invoice_number },
  )
  return {
    subject: t.subject(amount(view.disputed), view.customer),
    title: t.title,
    before: [
      { type: 'amount', value: amount(view.disputed), note: t.note(view.customer) },
      text(view.respond_by === null ? t.text_open : t.text(day(view.respond_by))),
      { type: 'rows', title: view.organization, rows },
    ],
    button: { label: t.button, href: view.home_url },
  }
}

export const paymentAccountChanged = (view: MailOf<'payment_account_changed'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).account
  return {
    subject: t.subject(view.organization),
    title: t.title,
    before: [
      text(t.text(view.organization)),
      {
        type: 'rows',
        rows: [
          { label: t.account, value: view.account },
          { label: t.key, value: view.key_hint },
        ],
      },
    ],
    button: { label: t.button, href: view.security_url },
  }
}
