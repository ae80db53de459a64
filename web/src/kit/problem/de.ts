import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Das hat nicht geklappt',
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
    NotPermitted: 'Das dürfen Sie nicht. Bitten Sie die Leitung, Ihnen eine Rolle mit diesem Recht zu geben.',
    ServiceUnavailable: 'Dieser Dienst kann gerade nicht antworten. Warten Sie ein wenig und laden Sie die Seite neu.',
    InternalServerError:
      'Auf unserer Seite ist etwas schiefgegangen. Laden Sie die Seite neu. Wenn das Problem bleibt, nennen Sie dem Verkäufer die Nummer dieser Anfrage.',
    TooManyRequests: 'Zu viele Versuche in kurzer Zeit. Warten Sie eine Minute und versuchen Sie es wieder.',
    invalid_client: 'Wir kennen die App nicht, die Sie hergeschickt hat. Deshalb haben wir Sie nicht zu ihr zurückgeschickt. Sie hat keine Daten erhalten.',
    invalid_redirect_uri:
      'Die App, die Sie hergeschickt hat, möchte Sie an einer Adresse empfangen, die sie nicht registriert hat. Wir haben Sie nicht dorthin geschickt, denn die Adresse gehört vielleicht nicht zur App.',
    invalid_request:
      'Die App, die Sie hergeschickt hat, hat eine Anfrage gestellt, die wir nicht beantworten können. Gehen Sie zur App zurück und versuchen Sie es noch einmal.',
  },
  other: 'Diese Anfrage ist nicht gültig. Gehen Sie zurück und versuchen Sie es noch einmal.',
  retrying: (seconds) =>
    seconds === 1 ? 'Diese Seite versucht es in einer Sekunde von selbst wieder.' : `Diese Seite versucht es in ${seconds} Sekunden von selbst wieder.`,
}
