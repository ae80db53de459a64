import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Übersicht',
  owed: 'Eine Zahlung ist fehlgeschlagen',
  owedAmount: (amount, what) => `${amount} für ${what} ist noch offen.`,
  nextTry: (date) => `Wir versuchen es am ${date} noch einmal.`,
  updateCard: 'Karte ändern',
  payNow: 'Jetzt bezahlen',
  none: 'Sie haben hier im Moment kein Abonnement. Ihre Käufe finden Sie unter Bestellungen.',
  includes: 'Enthalten',
  team: 'Das Team verwalten',
  usage: 'Nutzung ansehen',
  manage: 'Ändern oder kündigen',
  orders: 'Letzte Bestellungen',
  noOrders: 'Sie haben noch nichts bestellt.',
  allOrders: 'Alle Bestellungen',
}
