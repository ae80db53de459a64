import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Ihre Bank bittet um Bestätigung',
  text: (price, seller) => `Möchten Sie ${price} an ${seller} zahlen?`,
  setup: (seller) => `Darf ${seller} diese Karte später belasten?`,
  sandbox: 'Diese Seite simuliert die Bank einer Testkarte. Bei einer echten Karte bittet Ihre eigene Bank um Bestätigung.',
  confirm: 'Ja, bestätigen',
  refuse: 'Nein, ablehnen',
}
