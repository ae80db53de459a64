import { pluralIn } from '@bursar/views'
import { people } from '../de.ts'
import type { en } from './en.ts'

const plural = pluralIn('de')

export const de: typeof en = {
  title: 'Team',
  titleOf: (company) => `Team von ${company}`,
  none: 'Sie haben hier keine Plätze gekauft. Deshalb gibt es kein Team zu verwalten.',
  count: 'Anzahl der Plätze ändern',
  fixed: 'Sie können die Anzahl dieser Plätze hier nicht ändern.',
  invite: 'Personen einladen',
  addresses: 'E-Mail-Adressen',
  addressesHint: 'Eine oder viele: Fügen Sie eine Liste, eine Tabelle oder ganze Zeilen aus einer E-Mail ein.',
  role: 'Rolle für alle',
  may: {
    owner: 'Darf alles und kann das Team übergeben.',
    billing_manager: 'Sieht Zahlungen, ändert Plätze und Tarif, lädt Personen ein und entfernt sie.',
    member: 'Nutzt den eigenen Platz und sieht keine Preise.',
  },
  submit: 'Einladungen senden',
  full: (count) =>
    `Alle Plätze sind vergeben: ${people(count)} ${plural(count, { one: 'konnte', other: 'konnten' })} nicht eingeladen werden. Die Adressen stehen noch im Feld darunter. Prüfen Sie den Preis für mehr Plätze, ändern Sie die Anzahl, und senden Sie die Einladungen noch einmal.`,
  allTaken: 'Alle Plätze sind vergeben. Ändern Sie zuerst die Anzahl der Plätze, oder nehmen Sie einen zurück.',
  add: (count) => `Preis für ${count} mehr ansehen`,
  people: 'Personen',
  alone: (free) => `Sie sind hier die einzige Person. Sie haben ${plural(free, { one: '1 freien Platz', other: `${free} freie Plätze` })}.`,
  nobody: (free) => `Diese Plätze sind noch nicht vergeben. Sie haben ${plural(free, { one: '1 freien Platz', other: `${free} freie Plätze` })}.`,
  noMatch: 'Keine Person passt zu Ihrem Filter.',
  clear: 'Alle zeigen',
  filter: 'Personen filtern',
  status: 'Status',
  query: 'Adresse oder Name',
  search: 'Zeigen',
  columns: { person: 'Person', status: 'Status', role: 'Rolle', since: 'Seit', actions: 'Verwalten' },
  you: 'Sie',
  manage: 'Verwalten',
  resend: 'Einladung noch einmal senden',
  revoke: 'Platz zurücknehmen',
  loses: (email, gives) =>
    gives.length === 0
      ? `${email} verliert sofort den Zugang, und der Platz ist frei.`
      : `${email} verliert sofort: ${gives.join(', ')}. Der Platz ist dann frei.`,
  revokeNow: 'Ja, zurücknehmen',
  changeRole: 'Rolle ändern',
  handOver: 'Inhaber (Sie übernehmen dann die Rechnungsverwaltung)',
  ownRole: 'Sie können Ihre eigene Rolle nicht ändern. Bitten Sie den Inhaber oder eine andere Person mit Rechnungsverwaltung.',
  lastOwner: 'Ein Team hat immer einen Inhaber. Um diese Rolle zu ändern, übergibt der Inhaber das Team einer anderen Person.',
  others: 'Im Team, ohne Platz',
  giveSeat: 'Platz geben',
  remove: 'Aus dem Team entfernen',
  removes: (email) => `${email} verlässt das Team und kann dessen Portal nicht mehr öffnen.`,
  removeNow: 'Ja, entfernen',
}
