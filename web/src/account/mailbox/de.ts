import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Postfach',
  intro: 'Dieser Dienst verschickt keine E-Mails, sondern zeigt sie hier. Nur für die Entwicklung.',
  empty:
    'Noch keine E-Mails. Fordern Sie einen Anmeldecode an, und laden Sie diese Seite neu. Nur bekannte Adressen erhalten einen Code, zum Beispiel die, die bursar dev ausgibt.',
  to: 'An',
  text: 'Nur Text',
  gallery: 'Muster aller E-Mails',
  galleryIntro: 'Ein Beispiel jeder E-Mail, die Bursar verschickt.',
}
