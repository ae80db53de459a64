export const en = {
  country: 'Country',
  pickCountry: 'Choose a country',
  state: 'State or province',
  city: 'City',
  postal_code: 'Postal code',
  line1: 'Street and number',
  line2: 'Apartment, floor or building',
}
