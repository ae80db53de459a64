import { showPurchased, type MailFrame, type MailOf } from '@bursar/views'
import { textsIn } from '../../kit/index.ts'
import { parts, text, type Block, type Content, type Row } from '../content.ts'
import { formatsOf } from '../format.ts'
import { benefitBlocks } from '../orders/orders.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }
const tablesOf = (...rows: readonly Row[]): Block[] => (rows.length === 0 ? [] : [{ type: 'rows', rows }])

export const trialStarted = (view: MailOf<'trial_started'>, frame: MailFrame): Content => {
  const name = showPurchased(frame.locale, view.plan)
  const t = textsIn(frame, texts).trial_started
  const { day, forecast } = formatsOf(frame)
  return {
    subject: t.subject(name),
    title: t.title(name),
    before: [text(t.text(day(view.forecast.at))), ...tablesOf(...forecast(view.forecast))],
    button: { label: t.button, href: view.access_url },
    links: [{ label: t.cancel, href: view.cancel_url }],
    after: benefitBlocks(frame, view.benefits, view.more_to_come),
  }
}

/** The mail before a charge: the end of a trial, or the renewal of a long period. */
export const chargeAhead = (view: MailOf<'trial_ending'>, frame: MailFrame): Content => {
  const name = showPurchased(frame.locale, view.plan)
  const t = textsIn(frame, texts)[view.kind]
  const { day, forecast } = formatsOf(frame)
  const at = day(view.forecast.at)
  return {
    subject: t.subject(name, at),
    title: t.title(at),
    before: [text(t.text(name)), ...tablesOf(...forecast(view.forecast))],
    button: { label: t.button, href: view.portal_url },
    links: [{ label: t.cancel, href: view.cancel_url }],
  }
}

export const canceled = (view: MailOf<'subscription_canceled'>, frame: MailFrame): Content => {
  const name = showPurchased(frame.locale, view.plan)
  const t = textsIn(frame, texts).canceled
  return {
    subject: t.subject(name),
    title: t.title,
    before: [text(t.text(name, formatsOf(frame).day(view.ends_at)))],
    button: { label: t.button, href: view.portal_url },
  }
}

export const uncanceled = (view: MailOf<'subscription_uncanceled'>, frame: MailFrame): Content => {
  const name = showPurchased(frame.locale, view.plan)
  const { uncanceled: t, price: label } = textsIn(frame, texts)
  const { day, price } = formatsOf(frame)
  return {
    subject: t.subject(name),
    title: t.title,
    before: [text(t.text(name, day(view.renews_at))), ...tablesOf({ label, value: price(view.price) })],
    button: { label: t.button, href: view.portal_url },
  }
}

export const ended = (view: MailOf<'subscription_ended'>, frame: MailFrame): Content => {
  const name = showPurchased(frame.locale, view.plan)
  const t = textsIn(frame, texts).ended
  return {
    subject: t.subject(name),
    title: t.title,
    before: [text(t.text(name, formatsOf(frame).day(view.ended_at)))],
    button: { label: t.button, href: view.portal_url },
  }
}

export const paused = (view: MailOf<'subscription_paused'>, frame: MailFrame): Content => {
  const name = showPurchased(frame.locale, view.plan)
  const t = textsIn(frame, texts).paused
  const { day } = formatsOf(frame)
  const begins = view.begins_at === null ? t.now(name) : t.begins(name, day(view.begins_at))
  return {
    subject: t.subject(name),
    title: view.begins_at === null ? t.title : t.title_scheduled,
    before: [text(`${begins} ${view.resumes_at === null ? t.open : t.resumes(day(view.resumes_at))}`)],
    button: { label: t.button, href: view.portal_url },
  }
}

export const resumed = (view: MailOf<'subscription_resumed'>, frame: MailFrame): Content => {
  const name = showPurchased(frame.locale, view.plan)
  const { resumed: t, price: label } = textsIn(frame, texts)
  const { day, price } = formatsOf(frame)
  return {
    subject: t.subject(name),
    title: t.title,
    before: [text(t.text(name, day(view.renews_at))), ...tablesOf({ label, value: price(view.price) })],
    button: { label: t.button, href: view.portal_url },
  }
}

export const seatsChanged = (view: MailOf<'seats_changed'>, frame: MailFrame): Content => {
  // The mail is about the number of seats, so the name is without it.
  const { name } = view.plan
  const { seats: t, price: label } = textsIn(frame, texts)
  const { day, price } = formatsOf(frame)
  const { seats, from } = view
  return {
    subject: (from === null ? t.subject : t.subject_later)(seats, name),
    title: from === null ? t.title(seats) : t.title_later(seats, day(from)),
    before: [text(from === null ? t.text(name) : t.text_later(name, day(from))), ...tablesOf({ label, value: price(view.price) })],
    button: { label: t.button, href: view.team_url },
    links: [{ label: t.manage, href: view.portal_url }],
  }
}

export const planChanged = (view: MailOf<'plan_changed'>, frame: MailFrame): Content => {
  const name = showPurchased(frame.locale, view.plan)
  const { plan: t, price: label } = textsIn(frame, texts)
  const { day, price } = formatsOf(frame)
  const { from } = view
  return {
    subject: from === null ? t.subject(name) : t.subject_later(name, day(from)),
    title: from === null ? t.title : t.title_later,
    before: [text(from === null ? t.text(name) : t.text_later(name, day(from))), ...tablesOf({ label, value: price(view.price) })],
    button: { label: t.button, href: view.portal_url },
  }
}

export const cardExpiring = (view: MailOf<'card_expiring'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).card
  const card = formatsOf(frame).card(view.card)
  const month = new Intl.DateTimeFormat(frame.locale, { month: 'long', year: 'numeric', timeZone: 'UTC' }).format(
    new Date(Date.UTC(view.year, view.month - 1, 1)),
  )
  return {
    subject: t.subject(card),
    title: t.title,
    before: [text(t.text(card, month))],
    button: { label: t.button, href: view.card_url },
  }
}

export const usageThreshold = (view: MailOf<'usage_threshold'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).usage
  const { money, decimal, day, unitPrice } = formatsOf(frame)
  const { basis, percent, currency, rate, meter } = view
  const isReached = percent === 100
  const shown = (value: string) => (currency === null ? `${decimal(value)} ${t.units}` : money(Number(value), currency))
  const next =
    basis === 'cap' ? t.cap(isReached) : rate === null ? t.unbilled(isReached, frame.seller?.name ?? 'Bursar') : t.credits(isReached, unitPrice(rate, meter))
  return {
    subject: t.subject(meter.meter, percent, basis),
    title: `${meter.meter}: ${t.title(percent, basis)}`,
    before: [
      text(next),
      ...tablesOf(
        ...parts<Row>(
          { label: basis === 'credits' ? t.used : t.cost, value: shown(view.consumed), tone: 'total' },
          { label: basis === 'credits' ? t.included : t.limit, value: shown(view.limit) },
          view.period_end !== null && { label: t.until, value: day(view.period_end) },
        ),
      ),
    ],
    button: { label: view.has_usage_page ? t.button : t.portal, href: view.portal_url },
  }
}
