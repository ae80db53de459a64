import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Dashboard',
  navigation: 'Dashboard',
  screens: {
    home: 'Start',
    orders: 'Bestellungen',
    customers: 'Kunden',
    products: 'Produkte',
    metrics: 'Kennzahlen',
    webhooks: 'Webhooks',
    settings: 'Einstellungen',
  },
  organizations: 'Organisation wählen',
  search: 'Suchen oder springen',
  account: 'Kontoeinstellungen',
  you: 'Ihr Konto',
  side: 'Organisation und Konto',
  needsScript: 'Das Dashboard braucht JavaScript. Erlauben Sie es für diese Seite, und laden Sie sie neu.',
  loading: 'Wird geladen',
  closed: {
    no_organization: {
      title: 'Noch keine Organisation',
      text: 'Sie gehören zu keiner Organisation. Bitten Sie deren Inhaber um eine Einladung, oder bitten Sie den Betreiber, eine anzulegen.',
      link: 'Kontoeinstellungen',
      href: '/settings/apps',
    },
    no_second_factor: {
      title: 'Zuerst einen zweiten Faktor einrichten',
      text: 'Sie betreiben diese Installation. Betreiber öffnen das Dashboard erst, wenn sie mit einem zweiten Faktor angemeldet sind.',
      link: 'Zweiten Faktor einrichten',
      href: '/settings/security',
    },
  },
}
