import { pluralIn } from '@bursar/views'
import type { en } from './en.ts'

const plural = pluralIn('de')

export const de: typeof en = {
  results: 'Ergebnis',
  said: (count) => plural(count, { one: 'Eine Person wurde eingeladen.', other: `${count} Personen wurden eingeladen.` }),
  none: 'Dieser Text enthält keine E-Mail-Adresse. Geben Sie mindestens eine ein.',
  result: {
    invited: 'eingeladen',
    has_one: 'hat schon einen Platz',
    no_address: 'ist keine E-Mail-Adresse',
    no_seat: 'nicht eingeladen: kein Platz frei',
    not_asked: 'noch nicht eingeladen',
    refused: 'nicht eingeladen',
  },
  halted: {
    at_once: (rest) =>
      `Sie können höchstens 50 Personen auf einmal einladen. Senden Sie nun die ${plural(rest, { one: 'letzte Adresse', other: `übrigen ${rest}` })}.`,
    signed_out: (rest) =>
      `Ihre Sitzung ist beendet: ${plural(rest, { one: 'Eine Person wurde', other: `${rest} Personen wurden` })} nicht eingeladen. Melden Sie sich an, und senden Sie den Rest noch einmal.`,
  },
  wait: (rest) => [
    `Sie haben in kurzer Zeit zu viele Personen eingeladen. ${plural(rest, { one: 'Die letzte Einladung folgt', other: `Die übrigen ${rest} Einladungen folgen` })} in`,
    '. Lassen Sie diese Seite offen, oder senden Sie sie später noch einmal.',
  ],
  signIn: 'Am Portal anmelden',
}
