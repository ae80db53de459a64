import type { MailFrame, MailOf } from '@bursar/views'
import { textsIn } from '../../kit/index.ts'
import { note, parts, text, type Content, type Row } from '../content.ts'
import { formatsOf } from '../format.ts'
import { de, en } from './texts.ts'

const texts = { en, de }
const nameOf = ({ seller }: MailFrame): string => seller?.name ?? 'Bursar'

/** The code with which a customer, or a user of Bursar, signs in. */
export const code = (view: MailOf<'customer_code'> | MailOf<'sign_in_code'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).code
  const isCustomer = view.kind === 'customer_code'
  return {
    subject: isCustomer ? t.customer_subject(nameOf(frame)) : t.subject,
    title: isCustomer ? t.customer_title(nameOf(frame)) : t.title,
    before: [text(t.text), { type: 'code', code: view.code }],
    button: { label: t.button, href: view.sign_in_url },
    after: [note(t.note(view.minutes))],
  }
}

export const emailChange = (view: MailOf<'email_change'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).change
  return {
    subject: t.subject(nameOf(frame)),
    title: t.title,
    before: [text(t.text(nameOf(frame)))],
    button: { label: t.button, href: view.confirm_url },
    after: [note(t.note)],
  }
}

export const emailChanged = (view: MailOf<'email_changed'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).changed
  return {
    subject: t.subject(nameOf(frame)),
    title: t.title,
    before: [text(t.text(nameOf(frame), frame.seller?.support_email ?? nameOf(frame)))],
    button: { label: t.button, href: view.portal_url },
  }
}

export const sessionLeaked = (view: MailOf<'customer_session_leaked'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).session
  return { subject: t.subject(nameOf(frame)), title: t.title, before: [text(t.text(nameOf(frame)))], button: { label: t.button, href: view.portal_url } }
}

export const organizationInvitation = (view: MailOf<'organization_invitation'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).invitation
  return {
    subject: t.subject(view.organization),
    title: t.title(view.organization),
    before: [text(t.text(view.organization, view.invited_by, t.roles[view.role] ?? view.role))],
    button: { label: t.button, href: view.accept_url },
    after: [note(t.note(formatsOf(frame).day(view.until)))],
  }
}

export const tokenLeaked = (view: MailOf<'token_leaked'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).token
  const rows = parts<Row>({ label: t.token, value: view.hint }, view.comment !== '' && { label: t.comment, value: view.comment })
  return {
    subject: t.subject(view.organization),
    title: t.title,
    before: [text(t.text(view.organization)), { type: 'rows', rows }],
    button: { label: t.button, href: view.tokens_url },
  }
}

export const appTokenLeaked = (view: MailOf<'app_token_leaked'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).app_token
  return { subject: t.subject(view.app), title: t.title, before: [text(t.text(view.app))], button: { label: t.button, href: view.apps_url } }
}

export const clientSecretLeaked = (view: MailOf<'client_secret_leaked'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).client_secret
  const items = [{ name: t.request, values: [`PUT /v1/oauth2/register/${view.client_id}`] }]
  return {
    subject: t.subject(view.app),
    title: t.title,
    before: [text(t.text(view.app)), { type: 'items', title: view.app, items }],
    button: { label: t.button, href: view.docs_url },
  }
}

export const appAllowed = (view: MailOf<'app_allowed'>, frame: MailFrame): Content => {
  const t = textsIn(frame, texts).allowed
  return { subject: t.subject(view.app), title: t.title(view.app), before: [text(t.text(view.app))], button: { label: t.button, href: view.apps_url } }
}
