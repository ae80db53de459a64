import { countSeats } from '@bursar/views'
import type { en } from './en.ts'

export const de: typeof en = {
  trial_started: {
    subject: (label) => `Ihre Testphase von ${label} hat begonnen`,
    title: (label) => `Ihre Testphase von ${label} hat begonnen`,
    text: (day) => `Bis zum ${day} können Sie alles nutzen. Dann beginnt Ihr Abonnement. Wenn Sie nichts bezahlen möchten, kündigen Sie vor diesem Tag.`,
    button: 'Zu Ihrem Zugang',
    cancel: 'Testphase kündigen',
  },
  trial_ending: {
    subject: (label, day) => `Ihre Testphase von ${label} endet am ${day}`,
    title: (day) => `Ihre Testphase endet am ${day}`,
    text: (label) => `Dann beginnt Ihr Abonnement von ${label}. Sie müssen dafür nichts tun. Wenn Sie nichts bezahlen möchten, kündigen Sie vor diesem Tag.`,
    button: 'Abonnement verwalten',
    cancel: 'Testphase kündigen',
  },
  renewal_reminder: {
    subject: (label, day) => `${label} verlängert sich am ${day}`,
    title: (day) => `Ihr Abonnement verlängert sich am ${day}`,
    text: (label) => `Ihr Abonnement von ${label} läuft weiter. Sie müssen dafür nichts tun. Wenn Sie es beenden möchten, kündigen Sie vor diesem Tag.`,
    button: 'Abonnement verwalten',
    cancel: 'Abonnement kündigen',
  },
  canceled: {
    subject: (label) => `${label}: Ihre Kündigung`,
    title: 'Ihr Abonnement ist gekündigt',
    text: (label, day) =>
      `Sie können ${label} bis zum ${day} nutzen. Es verlängert sich nicht, und es wird nichts mehr dafür abgebucht. Bis dahin können Sie die Kündigung zurücknehmen.`,
    button: 'Abonnement behalten',
  },
  uncanceled: {
    subject: (label) => `${label} läuft weiter`,
    title: 'Ihr Abonnement läuft weiter',
    text: (label, day) => `Ihre Kündigung von ${label} wurde zurückgenommen. Das Abonnement verlängert sich am ${day}.`,
    button: 'Abonnement verwalten',
  },
  ended: {
    subject: (label) => `Ihr Abonnement von ${label} ist beendet`,
    title: 'Ihr Abonnement ist beendet',
    text: (label, day) => `Ihr Abonnement von ${label} endete am ${day}. Es wird nichts mehr dafür abgebucht.`,
    button: 'Kundenportal öffnen',
  },
  paused: {
    subject: (label) => `${label}: Ihre Pause`,
    title_scheduled: 'Ihr Abonnement wird pausieren',
    title: 'Ihr Abonnement pausiert',
    begins: (label, day) => `Sie können ${label} bis zum ${day} nutzen. Dann beginnt die Pause, und währenddessen wird nichts abgebucht.`,
    now: (label) => `${label} pausiert, und es wird nichts abgebucht.`,
    resumes: (day) => `Am ${day} läuft es von selbst weiter.`,
    open: 'Es läuft weiter, sobald Sie es fortsetzen.',
    button: 'Abonnement verwalten',
  },
  resumed: {
    subject: (label) => `${label} läuft nach der Pause weiter`,
    title: 'Ihr Abonnement läuft weiter',
    text: (label, day) => `Die Pause von ${label} ist beendet. Der laufende Zeitraum endet am ${day}.`,
    button: 'Abonnement verwalten',
  },
  seats: {
    subject: (seats, label) => `${label}: Sie haben jetzt ${countSeats('de', seats)}`,
    subject_later: (seats, label) => `${label}: ${countSeats('de', seats)} ab dem nächsten Zeitraum`,
    title: (seats) => `Sie haben jetzt ${countSeats('de', seats)}`,
    title_later: (seats, day) => `${countSeats('de', seats)} ab dem ${day}`,
    text: (label) => `Die Anzahl der Plätze von ${label} wurde geändert.`,
    text_later: (label, day) => `Die Anzahl der Plätze von ${label} ändert sich am ${day}. Bis dahin bleibt alles, wie es ist.`,
    button: 'Plätze vergeben',
    manage: 'Abonnement verwalten',
  },
  plan: {
    subject: (label) => `Ihr Tarif ist jetzt ${label}`,
    subject_later: (label, day) => `Ihr Tarif wechselt am ${day} zu ${label}`,
    title: 'Ihr Tarif wurde geändert',
    title_later: 'Ihr Tarif ändert sich',
    text: (label) => `Ihr Tarif ist jetzt ${label}.`,
    text_later: (label, day) => `Ihr Tarif wechselt am ${day} zu ${label}. Bis dahin bleibt alles, wie es ist.`,
    button: 'Abonnement ansehen',
  },
  price: 'Preis, vor Steuern',
  starts: 'Ab',
  renews: 'Nächste Verlängerung',
  card: {
    subject: (card) => `${card} läuft bald ab`,
    title: 'Ihre Karte läuft bald ab',
    text: (card, month) => `${card} ist bis Ende ${month} gültig. Hinterlegen Sie eine neue Karte, damit Ihr Abonnement ohne Unterbrechung weiterläuft.`,
    button: 'Karte ändern',
  },
  usage: {
    units: 'Einheiten',
    subject: (meter, percent, basis) =>
      `${meter}: ${percent} % ${basis === 'credits' ? 'Ihrer enthaltenen Nutzung sind verbraucht' : 'Ihres Ausgabenlimits sind erreicht'}`,
    title: (percent, basis) => `${percent} % ${basis === 'credits' ? 'Ihrer enthaltenen Nutzung sind verbraucht' : 'Ihres Ausgabenlimits sind erreicht'}`,
    used: 'Verbraucht',
    cost: 'Kosten bisher, vor Rabatten und Steuern',
    included: 'Enthalten',
    limit: 'Ausgabenlimit',
    until: 'Bis',
    credits: (isReached, price) => (isReached ? `Weitere Nutzung kostet ${price}.` : `Nutzung über die enthaltene Menge hinaus kostet ${price}.`),
    unbilled: (isReached, seller) =>
      `${isReached ? 'Weitere Nutzung' : 'Nutzung über die enthaltene Menge hinaus'} wird nicht berechnet. ${seller} kann sie beenden, bis Sie weitere Einheiten erhalten.`,
    cap: (isReached) =>
      isReached
        ? 'Weitere Nutzung in diesem Zeitraum wird nicht berechnet.'
        : 'Sobald das Limit erreicht ist, wird weitere Nutzung in diesem Zeitraum nicht berechnet.',
    button: 'Nutzung ansehen',
    portal: 'Kundenportal öffnen',
  },
}
