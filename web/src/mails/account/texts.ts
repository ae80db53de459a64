export const en = {
  code: {
    customer_subject: (seller: string) => `Your code for ${seller}`,
    subject: 'Your sign-in code',
    customer_title: (seller: string) => `Sign in to ${seller}`,
    title: 'Sign in to Bursar',
    text: 'Type this code on the page where you asked for it.',
    note: (minutes: number) => `The code works once, for ${minutes} minutes. If you did not ask for it, you can ignore this mail.`,
    button: 'Go to the sign-in page',
  },
  change: {
    subject: (seller: string) => `Confirm your new address with ${seller}`,
    title: 'Confirm your new address',
    text: (seller: string) => `With the button you use this address for your account with ${seller} from now on.`,
    note: 'The link works once, for an hour. If you did not ask for it, you can ignore this mail.',
    button: 'Use this address',
  },
  changed: {
    subject: (seller: string) => `Your address with ${seller} was changed`,
    title: 'Your address was changed',
    text: (seller: string, contact: string) => `Your account with ${seller} now uses another e-mail address. If this was not you, write to ${contact} at once.`,
    button: 'Open your customer portal',
  },
  session: {
    subject: (seller: string) => `Your session with ${seller} was ended`,
    title: 'Your session was ended',
    text: (seller: string) =>
      `A link or token that opens your account with ${seller} was found in a public place. We have ended the session. Nothing else has changed. Sign in again when you need to.`,
    button: 'Sign in again',
  },
  invitation: {
    subject: (organization: string) => `You are invited to ${organization}`,
    title: (organization: string) => `You are invited to ${organization}`,
    text: (organization: string, who: string | null, role: string) =>
      `${who === null ? 'You are invited' : `${who} invites you`} to join ${organization} on Bursar as ${role}. Sign in with this address to accept.`,
    note: (day: string) => `The invitation is valid until ${day}.`,
    roles: { owner: 'owner', admin: 'admin', finance: 'finance', member: 'member' } as Record<string, string>,
    button: 'Accept the invitation',
  },
  token: {
    subject: (organization: string | null) =>
      organization === null ? 'A leaked personal access token was revoked' : `A leaked access token of ${organization} was revoked`,
    title: 'An access token was revoked',
    text: (organization: string | null) =>
      `${organization === null ? 'A personal access token of yours' : `An access token of ${organization}`} was found in a public place and has been revoked. Programs that used it have stopped working. Create a new token, and keep it out of code and logs.`,
    token: 'Token',
    comment: 'Comment',
    button: 'Manage access tokens',
  },
  app_token: {
    subject: (app: string) => `A leaked token of ${app} was revoked`,
    title: 'A token of an app was revoked',
    text: (app: string) =>
      `A token with which the app “${app}” acts for you was found in a public place and has been revoked. The app will ask for your consent again. If you no longer trust it, remove it from your connected apps.`,
    button: 'See your connected apps',
  },
  client_secret: {
    subject: (app: string) => `The leaked secret of ${app} was revoked`,
    title: 'The secret of your app was revoked',
    text: (app: string) =>
      `The client secret of your app “${app}” was found in a public place and has been revoked. The app can no longer get tokens. To get a new secret, send its configuration again with the request below.`,
    request: 'Request',
    button: 'Open the API reference',
  },
  allowed: {
    subject: (app: string) => `${app} can now use your Bursar account`,
    title: (app: string) => `You have connected ${app}`,
    text: (app: string) =>
      `You allowed the app “${app}” to use your account. If this was not you, or you have changed your mind, remove the app. It loses access at once.`,
    button: 'See your connected apps',
  },
}

export const de: typeof en = {
  code: {
    customer_subject: (seller) => `Ihr Code für ${seller}`,
    subject: 'Ihr Anmeldecode',
    customer_title: (seller) => `Anmelden bei ${seller}`,
    title: 'Anmelden bei Bursar',
    text: 'Geben Sie diesen Code auf der Seite ein, auf der Sie ihn angefordert haben.',
    note: (minutes) => `Der Code gilt einmal, ${minutes} Minuten lang. Wenn Sie ihn nicht angefordert haben, können Sie diese E-Mail ignorieren.`,
    button: 'Zur Anmeldung',
  },
  change: {
    subject: (seller) => `Bestätigen Sie Ihre neue Adresse bei ${seller}`,
    title: 'Bestätigen Sie Ihre neue Adresse',
    text: (seller) => `Mit der Schaltfläche nutzen Sie ab jetzt diese Adresse für Ihr Konto bei ${seller}.`,
    note: 'Der Link gilt einmal, eine Stunde lang. Wenn Sie ihn nicht angefordert haben, können Sie diese E-Mail ignorieren.',
    button: 'Diese Adresse nutzen',
  },
  changed: {
    subject: (seller) => `Ihre Adresse bei ${seller} wurde geändert`,
    title: 'Ihre Adresse wurde geändert',
    text: (seller, contact) => `Ihr Konto bei ${seller} nutzt jetzt eine andere E-Mail-Adresse. Wenn Sie das nicht waren, schreiben Sie sofort an ${contact}.`,
    button: 'Kundenportal öffnen',
  },
  session: {
    subject: (seller) => `Ihre Sitzung bei ${seller} wurde beendet`,
    title: 'Ihre Sitzung wurde beendet',
    text: (seller) =>
      `Ein Link oder Token für Ihr Konto bei ${seller} wurde an einer öffentlichen Stelle gefunden. Wir haben die Sitzung beendet. Sonst hat sich nichts geändert. Melden Sie sich bei Bedarf erneut an.`,
    button: 'Erneut anmelden',
  },
  invitation: {
    subject: (organization) => `Sie sind zu ${organization} eingeladen`,
    title: (organization) => `Sie sind zu ${organization} eingeladen`,
    text: (organization, who, role) =>
      `${who === null ? 'Sie sind eingeladen' : `${who} lädt Sie ein`}, ${organization} auf Bursar als ${role} beizutreten. Melden Sie sich mit dieser Adresse an, um anzunehmen.`,
    note: (day) => `Die Einladung gilt bis zum ${day}.`,
    roles: { owner: 'Inhaber', admin: 'Administrator', finance: 'Finanzen', member: 'Mitglied' },
    button: 'Einladung annehmen',
  },
  token: {
    subject: (organization) =>
      organization === null
        ? 'Ein öffentlich gewordenes persönliches Token wurde gesperrt'
        : `Ein öffentlich gewordenes Token von ${organization} wurde gesperrt`,
    title: 'Ein Zugriffstoken wurde gesperrt',
    text: (organization) =>
      `${organization === null ? 'Ein persönliches Zugriffstoken von Ihnen' : `Ein Zugriffstoken von ${organization}`} wurde an einer öffentlichen Stelle gefunden und gesperrt. Programme, die es nutzten, funktionieren nicht mehr. Erstellen Sie ein neues Token, und halten Sie es aus Code und Protokollen heraus.`,
    token: 'Token',
    comment: 'Kommentar',
    button: 'Zugriffstoken verwalten',
  },
  app_token: {
    subject: (app) => `Ein öffentlich gewordenes Token von ${app} wurde gesperrt`,
    title: 'Ein Token einer App wurde gesperrt',
    text: (app) =>
      `Ein Token, mit dem die App „${app}“ für Sie handelt, wurde an einer öffentlichen Stelle gefunden und gesperrt. Die App wird Sie erneut um Ihre Zustimmung bitten. Wenn Sie ihr nicht mehr vertrauen, entfernen Sie sie aus Ihren verbundenen Apps.`,
    button: 'Verbundene Apps ansehen',
  },
  client_secret: {
    subject: (app) => `Das öffentlich gewordene Geheimnis von ${app} wurde gesperrt`,
    title: 'Das Geheimnis Ihrer App wurde gesperrt',
    text: (app) =>
      `Das Geheimnis (client secret) Ihrer App „${app}“ wurde an einer öffentlichen Stelle gefunden und gesperrt. Die App erhält keine Token mehr. Ein neues Geheimnis erhalten Sie, wenn Sie die Konfiguration mit der folgenden Anfrage erneut senden.`,
    request: 'Anfrage',
    button: 'API-Referenz öffnen',
  },
  allowed: {
    subject: (app) => `${app} kann jetzt Ihr Bursar-Konto nutzen`,
    title: (app) => `Sie haben ${app} verbunden`,
    text: (app) =>
      `Sie haben der App „${app}“ erlaubt, Ihr Konto zu nutzen. Wenn Sie das nicht waren oder es sich anders überlegt haben, entfernen Sie die App. Sie verliert den Zugriff sofort.`,
    button: 'Verbundene Apps ansehen',
  },
}
