import type { MailFrame } from '@bursar/views'
import { textsIn } from '../kit/index.ts'
import { parts, type MailLink } from './content.ts'

const texts = {
  en: {
    sandbox: 'Sandbox: a test. No real money moves.',
    questions: 'Questions? Write to ',
    ask: (name: string) => `Questions? Write to ${name}.`,
    terms: 'Terms',
    privacy: 'Privacy',
    sent: (name: string) => `Sent by Bursar for ${name}.`,
    own: 'Sent by Bursar, because the mail concerns your account.',
  },
  de: {
    sandbox: 'Sandbox: ein Test. Es fließt kein echtes Geld.',
    questions: 'Fragen? Schreiben Sie an ',
    ask: (name: string) => `Fragen? Schreiben Sie an ${name}.`,
    terms: 'AGB',
    privacy: 'Datenschutz',
    sent: (name: string) => `Versendet von Bursar im Auftrag von ${name}.`,
    own: 'Versendet von Bursar, weil die E-Mail Ihr Konto betrifft.',
  },
}

type Line = readonly (string | MailLink)[]

/** The footer of a mail: whom to ask, the seller's own pages, and who sends the mail. */
export const footerOf = (frame: MailFrame): { sandbox: string | null; lines: readonly Line[] } => {
  const { seller } = frame
  const t = textsIn(frame, texts)
  if (seller === null) return { sandbox: frame.sandbox ? t.sandbox : null, lines: [[t.own]] }
  const links = parts<MailLink>(
    seller.website !== null && { label: shortOf(seller.website), href: seller.website },
    seller.terms_url !== null && { label: t.terms, href: seller.terms_url },
    seller.privacy_url !== null && { label: t.privacy, href: seller.privacy_url },
  )
  return {
    sandbox: frame.sandbox ? t.sandbox : null,
    lines: parts<Line>(
      seller.support_email === null ? [t.ask(seller.name)] : [t.questions, { label: seller.support_email, href: `mailto:${seller.support_email}` }, '.'],
      links.length > 0 && links.flatMap((link, at) => (at === 0 ? [link] : [' · ', link])),
      [t.sent(seller.name)],
    ),
  }
}

const shortOf = (url: string): string => url.replace(/^https?:\/\/(www\.)?/, '').replace(/\/$/, '')
