import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Das hat nicht geklappt',
  titles: {
    RouteNotFound: 'Diese Seite gibt es nicht',
    not_found: 'Diese Seite gibt es nicht',
    TooManyRequests: 'Einen Moment, bitte',
    ServiceUnavailable: 'Wir sind gleich wieder da',
    InternalServerError: 'Bei uns ist etwas schiefgegangen',
    form_refused: 'Bitte senden Sie das Formular noch einmal',
    link_over: 'Dieser Link gilt nicht mehr',
    NotPermitted: 'Dafür haben Sie keine Berechtigung',
  },
  unchanged: 'Es wurde nichts geändert.',
  developers: 'Für Entwickler',
  requestId: 'Anfrage',
  home: 'Zu Ihrem Konto',
  known: {
    request_expired:
      'Diese Anmeldung gilt nicht mehr: Sie wurde schon abgeschlossen, ist älter als eine Stunde oder begann in einem anderen Browser. Gehen Sie zur App zurück und beginnen Sie neu.',
    form_refused:
      'Dieses Formular kam nicht von unserer eigenen Seite oder war zu lange offen. Gehen Sie zurück, laden Sie die Seite neu und senden Sie das Formular noch einmal.',
    form_unreadable: 'Das Formular enthält Zeichen, die wir nicht lesen können. Gehen Sie zurück, entfernen Sie sie und senden Sie das Formular noch einmal.',
    not_found: 'Diese Seite gibt es nicht, oder Sie dürfen sie nicht sehen. Prüfen Sie die Adresse, oder gehen Sie zur Seite mit dem Link zurück.',
    MailboxNotLocal: 'Das Postfach wird nur auf dem Rechner angezeigt, auf dem dieser Dienst läuft. Öffnen Sie es dort über localhost.',
    RouteNotFound: 'Unter dieser Adresse gibt es keine Seite. Prüfen Sie die Adresse, oder gehen Sie zur Seite mit dem Link zurück.',
    NotPermitted: 'Bitten Sie einen Inhaber, Ihnen eine Rolle mit diesem Recht zu geben.',
    ServiceUnavailable: 'Diese Seite lässt sich gerade nicht anzeigen. Die Ursache liegt bei uns, und wir arbeiten daran.',
    InternalServerError: 'Laden Sie die Seite neu. Wenn das Problem bleibt, nennen Sie dem Verkäufer die Nummer dieser Anfrage. Sie steht unten.',
    TooManyRequests: 'Von hier kamen in kurzer Zeit zu viele Anfragen. Es wurde nichts geändert.',
    link_over: 'Dieser Link zu einer Datei gilt nicht mehr. Öffnen Sie Ihre Käufe, und laden Sie die Datei dort noch einmal herunter.',
    EmbedHostNotAllowed: 'Der Verkäufer erlaubt dieser Website nicht, die Kasse anzuzeigen. Öffnen Sie den Link in einem eigenen Fenster.',
    invalid_client: 'Wir kennen die App nicht, die Sie hergeschickt hat. Deshalb haben wir Sie nicht zu ihr zurückgeschickt. Sie hat keine Daten erhalten.',
    invalid_redirect_uri:
      'Die App, die Sie hergeschickt hat, möchte Sie an einer Adresse empfangen, die sie nicht registriert hat. Wir haben Sie nicht dorthin geschickt, denn die Adresse gehört vielleicht nicht zur App.',
    invalid_request:
      'Die App, die Sie hergeschickt hat, hat eine Anfrage gestellt, die wir nicht beantworten können. Gehen Sie zur App zurück und versuchen Sie es noch einmal.',
  },
  other: 'Diese Anfrage ist nicht gültig. Gehen Sie zurück und versuchen Sie es noch einmal.',
  keptEntries: 'Ihre Eingaben bleiben erhalten.',
  retrying: ['Diese Seite lädt in', ' von selbst neu.'],
  sending: ['Diese Seite sendet Ihre Eingaben in', ' von selbst. Sie werden nur einmal gesendet.'],
  kept: 'Ihre Eingaben bleiben erhalten. Vielleicht sind sie schon angekommen. Prüfen Sie das, bevor Sie sie noch einmal senden.',
  send: 'Jetzt noch einmal senden',
  again: 'Diese Seite neu laden',
  toSeller: (seller) => `Zurück zu ${seller}`,
  toPortal: (seller) => `Ihre Käufe bei ${seller}`,
  mails: 'Wenn Sie etwas gekauft haben, finden Sie den Link dazu in der E-Mail zu Ihrem Kauf.',
}
