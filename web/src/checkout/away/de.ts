import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Ihre Zahlung ist noch nicht abgeschlossen',
  text: (method, price, seller) => `Bestätigen Sie die Zahlung von ${price} an ${seller} mit ${method}.`,
  setup: (method, seller) => `Bestätigen Sie mit ${method}, dass ${seller} später abbuchen darf.`,
  go: (method) => `Weiter mit ${method}`,
  confirmed: 'Wenn Sie schon bestätigt haben, zeigt diese Seite das Ergebnis, sobald es vorliegt.',
  nothing: 'Wenn Sie nicht innerhalb einer Stunde bestätigen, wird die Zahlung abgebrochen und nichts abgebucht.',
}
