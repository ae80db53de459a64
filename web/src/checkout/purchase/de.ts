import { pluralIn } from '@bursar/views'
import type { en } from './en.ts'

const plural = pluralIn('de')

export const de: typeof en = {
  working: 'Ihre Zahlung wird verarbeitet',
  preparing: 'Zahlung erhalten',
  preparingText: 'Wir bereiten Ihren Kauf vor. Diese Seite aktualisiert sich von selbst. Sie können sie schließen: Nichts geht verloren.',
  workingText: 'Diese Seite aktualisiert sich von selbst. Sie können sie schließen: Nichts geht verloren.',
  waiting: 'Wir warten auf Ihre Bank',
  waitingText: (email) =>
    `Ihre Bank hat die Zahlung noch nicht bestätigt. Das kann einige Minuten dauern, bei einer Lastschrift einige Tage. Sie können diese Seite schließen.${email === null ? '' : ` Der Beleg geht an ${email}, wenn die Zahlung eingegangen ist.`}`,
  thanks: 'Vielen Dank!',
  steps: 'Fortschritt',
  payment: 'Zahlung',
  order: 'Bestellung',
  access: 'Zugang',
  states: { done: 'fertig', doing: 'läuft', waiting: 'folgt' },
  bought: (product) => `Sie haben ${product}.`,
  paid: (price) => `${price} bezahlt`,
  number: (number) => `Beleg ${number}`,
  receipt: (email) => `Der Beleg geht an ${email}.`,
  benefits: 'Was Sie jetzt haben',
  benefit: { granted: 'bereit', coming: 'wird eingerichtet', failed: 'hat ein Problem', unknown: 'im Portal' },
  portal: 'Portal öffnen',
  signIn: 'Am Portal anmelden',
  signInText: (email) => `Für ${email} gibt es schon ein Konto. Um Ihren Kauf zu sehen, melden Sie sich mit einem Code an, den wir an diese Adresse senden.`,
  invite: 'Laden Sie Ihr Team ein',
  inviteText: 'Fügen Sie E-Mail-Adressen in beliebiger Form ein. Jede Person bekommt einen Link, um ihren Platz anzunehmen.',
  addresses: 'E-Mail-Adressen',
  send: 'Einladungen senden',
  seats: (given, total) => `${given} von ${total} ${plural(total, { one: 'Platz', other: 'Plätzen' })} vergeben`,
  full: 'Alle Plätze sind vergeben. Weitere können Sie im Portal kaufen.',
}
