import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Für Entwickler',
  api: 'API',
  apiText: 'Alle Operationen mit ihren Feldern, Berechtigungen und Fehlern stehen in einem OpenAPI-Dokument.',
  openapi: 'OpenAPI-Dokument',
  tokens: 'Zugriffstoken',
  tokensText: 'Programme senden Authorization: Bearer und ein Token. Hier legen Sie eines an:',
  oauth: 'OAuth 2.0 und OpenID Connect',
  oauthText:
    'Apps, die für andere Personen handeln, verwenden den Authorization Code Flow. Jede OpenID-Connect-Bibliothek findet die Endpunkte über den Aussteller:',
  endpoints: {
    discovery: 'Discovery',
    registration: 'Registrierung von Clients',
    authorization: 'Autorisierung',
    token: 'Token',
    userinfo: 'Angaben zur Person',
    introspection: 'Prüfung von Token',
    revocation: 'Widerruf von Token',
    jwks: 'Signaturschlüssel',
  },
}
