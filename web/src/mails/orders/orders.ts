import { showLabel, type MailBenefit, type MailFrame, type MailOf } from '@bursar/views'
import { refusedBy, textsIn } from '../../kit/index.ts'
import { parts, text, type Block, type Content, type MailLink, type Row } from '../content.ts'
import { formatsOf } from '../format.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }
const nameOf = ({ seller }: MailFrame): string => seller?.name ?? 'Bursar'

/** Lists the benefits with their license keys and files. */
export const benefitBlocks = (frame: MailFrame, benefits: readonly MailBenefit[], more_to_come: boolean): Block[] => {
  const t = textsIn(frame, texts)
  return parts<Block>(
    benefits.length > 0 && {
      type: 'items',
      title: t.included,
      items: benefits.map(({ description, note: markdown, keys, files }) => ({
        name: description,
        values: keys,
        markdown,
        links: files.map(({ name, url }) => ({ label: name, href: url })),
      })),
    },
    more_to_come && text(t.more_to_come),
  )
}

export const receipt = (view: MailOf<'receipt'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).receipt
  const { money, day, period, card } = formatsOf(frame)
  const shown = (amount: number) => money(amount, view.currency)
  const { discount, tax, tax_included, total, applied_balance: applied, carried, charged, paid } = view
  const day_shown = day(paid?.at ?? view.date)
  return {
    subject: t.subject[view.reason](nameOf(frame)),
    title: t.title[view.reason],
    before: parts<Block>(
      { type: 'amount', value: shown(charged), note: charged === 0 ? t.settled(day_shown) : t.paid(day_shown) },
      view.picture && { type: 'picture', ...view.picture },
    ),
    button: { label: t.button, href: view.order_url },
    links: parts<MailLink>(view.pdf && { label: t.pdf[view.pdf.kind], href: view.pdf.url }, { label: t.access, href: view.access_url }),
    after: [
      ...benefitBlocks(frame, view.benefits, view.more_to_come),
      {
        type: 'rows',
        title: t.items,
        rows: parts<Row>(
          ...view.lines.map((line) => ({ label: showLabel(frame.locale, line, view.seats), value: shown(line.amount) })),
          discount && { label: t.discount(discount.name), value: shown(-discount.amount) },
          tax !== 0 && !tax_included && { label: t.tax, value: shown(tax) },
          { label: t.total, value: shown(total), tone: 'total' },
          tax !== 0 && tax_included && { label: t.included_tax, value: shown(tax) },
          total >= 0 && applied < 0 && { label: t.from_balance, value: shown(applied) },
          total >= 0 && applied > 0 && { label: t.owed_before, value: shown(applied) },
          total < 0 && { label: t.to_balance, value: shown(-total) },
          carried !== 0 && { label: t.carried, value: shown(-carried) },
          (charged !== total || carried !== 0) && { label: t.charged, value: shown(charged), tone: 'total' },
        ),
      },
      {
        type: 'rows',
        title: t.details,
        rows: parts<Row>(
          paid?.card && { label: t.method, value: card(paid.card) },
          view.invoice_number !== null && { label: t.invoice_number, value: view.invoice_number },
          { label: t.date, value: day(view.date) },
          view.period && { label: t.period, value: period(view.period) },
        ),
      },
    ],
  }
}

export const freeOrder = (view: MailOf<'free_order'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).free
  return {
    subject: t.subject(nameOf(frame)),
    title: t.title,
    before: parts<Block>(text(t.intro(view.description)), view.picture && { type: 'picture', ...view.picture }),
    button: { label: t.button, href: view.access_url },
    after: benefitBlocks(frame, view.benefits, view.more_to_come),
  }
}

export const paymentFailed = (view: MailOf<'payment_failed'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).failed
  const { amount, day, period } = formatsOf(frame)
  const { next, reason } = view
  const isOver = next.type === 'ended'
  return {
    subject: (isOver ? t.ended_subject : t.subject)(nameOf(frame)),
    title: isOver ? t.ended_title : t.title,
    before: parts<Block>(
      { type: 'amount', value: amount(view.owed), note: t.note(view.description, view.period && period(view.period)) },
      reason.type === 'no_method' ? text(t.no_method) : reason.message !== null && text(t.reason(refusedBy(frame, reason.message))),
      text(next.type === 'retried' ? t.retried(day(next.at)) : isOver ? t.ended : t.open),
    ),
    button: isOver ? { label: t.portal, href: view.portal_url } : { label: t.pay, href: view.pay_url },
    ...(isOver ? {} : { links: [{ label: t.card, href: view.card_url }] }),
  }
}

export const refund = (view: MailOf<'refund'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).refund
  const { amount, day, card } = formatsOf(frame)
  return {
    subject: t.subject(nameOf(frame)),
    title: t.title,
    before: [
      { type: 'amount', value: amount(view.refunded), note: t.note(view.description) },
      text(view.card === null ? t.to_balance : t.to_card(card(view.card))),
    ],
    button: { label: t.button, href: view.order_url },
    after: [
      {
        type: 'rows',
        rows: parts<Row>(view.invoice_number !== null && { label: t.invoice_number, value: view.invoice_number }, { label: t.date, value: day(view.date) }),
      },
    ],
  }
}

export const dispute = (view: MailOf<'dispute'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).dispute
  const { amount, day } = formatsOf(frame)
  return {
    subject: t.subject[view.outcome](nameOf(frame)),
    title: t.title[view.outcome],
    before: [{ type: 'amount', value: amount(view.disputed), note: t.note(view.description, day(view.order_date)) }, text(t.text[view.outcome])],
    button: { label: t.button, href: view.order_url },
  }
}
