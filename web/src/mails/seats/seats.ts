import type { MailFrame, MailOf } from '@bursar/views'
import { textsIn } from '../../kit/index.ts'
import { note, text, type Content } from '../content.ts'
import { formatsOf } from '../format.ts'
import { de, en } from './texts.ts'

const texts = { en, de }

export const seatInvitation = (view: MailOf<'seat_invitation'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).invitation
  return {
    subject: t.subject(view.product, view.invited_by),
    title: t.title(view.product, view.invited_by),
    before: [text(t.text(view.product, frame.seller?.name ?? 'Bursar'))],
    button: { label: t.button, href: view.claim_url },
    after: [note(t.until(formatsOf(frame).moment(view.until)))],
  }
}

export const seatRevoked = (view: MailOf<'seat_revoked'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).revoked
  return {
    subject: t.title[view.reason](view.product),
    title: t.title[view.reason](view.product),
    before: [text(t.text[view.reason](view.product, view.team))],
    button: { label: t.button, href: view.portal_url },
  }
}

export const seatRequested = (view: MailOf<'seat_requested'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).requested
  return {
    subject: t.subject(view.who),
    title: t.title,
    before: [text(t.text(view.who, view.product))],
    button: { label: t.button, href: view.team_url },
  }
}
