import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Postfach',
  intro: 'Dieser Dienst verschickt keine E-Mails, sondern zeigt sie hier. Nur für die Entwicklung.',
  empty: 'Noch keine E-Mails. Fordern Sie einen Anmeldecode an, dann erscheint er hier.',
  to: 'An',
}
