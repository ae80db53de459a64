import type { en } from './en.ts'

export const de: typeof en = {
  country: 'Land',
  pickCountry: 'Land wählen',
  state: 'Bundesstaat oder Provinz',
  city: 'Ort',
  postal_code: 'Postleitzahl',
  line1: 'Straße und Hausnummer',
  line2: 'Adresszusatz',
}
