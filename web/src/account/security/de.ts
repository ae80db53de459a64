import { pluralIn } from '@bursar/views'
import type { en } from './en.ts'

const plural = pluralIn('de')

export const de: typeof en = {
  title: 'Anmeldesicherheit',
  intro: 'Mit einem zweiten Faktor genügt ein gestohlenes Postfach nicht, um sich an Ihrer Stelle anzumelden.',
  required: 'Sie betreiben diesen Dienst und brauchen deshalb einen zweiten Faktor. Bis Sie ihn einrichten, können Sie Ihr Konto nur ansehen.',
  off: 'Sie haben keinen zweiten Faktor.',
  on: 'Ihr zweiter Faktor ist eingeschaltet.',
  left: (count) => plural(count, { one: '1 Wiederherstellungscode ist übrig.', other: `${count} Wiederherstellungscodes sind übrig.` }),
  begin: 'Zweiten Faktor einrichten',
  setup: 'Fügen Sie dieses Konto Ihrer Authenticator-App hinzu',
  scan: 'Scannen Sie diesen Code mit der App.',
  qr: 'QR-Code, der dieses Konto zu einer Authenticator-App hinzufügt',
  secret: 'Oder geben Sie diesen Schlüssel in der App ein',
  link: 'In einem Authenticator auf diesem Gerät öffnen',
  code: 'Code aus der App',
  confirm: 'Einschalten',
  codesTitle: 'Ihre Wiederherstellungscodes',
  codes:
    'Nutzen Sie einen, wenn Sie Ihren Authenticator nicht zur Hand haben. Jeder Code gilt einmal. Bewahren Sie die Codes sicher auf: Sie werden nicht wieder gezeigt.',
  end: 'Zweiten Faktor ausschalten',
  endHint: 'Sie müssen noch einmal einen Code eingeben.',
  confirmHint: 'Beim Einschalten werden Sie in allen anderen Browsern abgemeldet.',
  sessionsTitle: 'Angemeldete Browser',
  sessions: (count) =>
    plural(count, { one: 'Sie sind nur in diesem Browser angemeldet.', other: `Sie sind in ${count} Browsern angemeldet, einschließlich dieses Browsers.` }),
  everywhere: 'Überall abmelden',
  everywhereHint: 'Beendet Ihre Sitzungen in allen Browsern, auch in diesem. Zugriffstoken und Apps funktionieren weiter.',
}
