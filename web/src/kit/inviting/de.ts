import type { en } from './en.ts'

export const de: typeof en = {
  results: 'Ergebnis',
  said: (count) => (count === 1 ? 'Eine Person wurde eingeladen.' : `${count} Personen wurden eingeladen.`),
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
    at_once: (rest) => `Sie können höchstens 50 Personen auf einmal einladen. Senden Sie nun die ${rest === 1 ? 'letzte Adresse' : `übrigen ${rest}`}.`,
    wait: (rest, wait) =>
      `Sie haben in kurzer Zeit zu viele Personen eingeladen. Senden Sie die ${rest === 1 ? 'letzte Adresse' : `übrigen ${rest}`} in ${wait} noch einmal.`,
    signed_out: (rest) =>
      `Ihre Sitzung ist beendet: ${rest === 1 ? 'Eine Person wurde' : `${rest} Personen wurden`} nicht eingeladen. Melden Sie sich an, und senden Sie den Rest noch einmal.`,
  },
  signIn: 'Am Portal anmelden',
}
