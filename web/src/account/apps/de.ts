import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Verbundene Apps',
  intro: 'Diese Apps handeln für Sie, mit den Berechtigungen, die Sie ihnen gegeben haben. Wenn Sie eine App entfernen, verliert sie sofort den Zugriff.',
  empty: 'Keine App handelt für Sie. Sobald Sie einer etwas erlauben, erscheint sie hier.',
  everywhere: 'allen Organisationen, auch späteren',
  nowhere: 'keiner Organisation, der Sie noch angehören',
  where: 'Arbeitet in',
  may: 'Darf',
  since: (date) => `Erlaubt am ${date}`,
  last: (date) => `zuletzt gefragt am ${date}`,
  remove: (name) => `${name} entfernen`,
  consequence: 'Die App verliert sofort den Zugriff. Um ihn wiederzubekommen, muss sie Sie neu fragen.',
  confirm: 'Ja, entfernen',
  removed: (name) => `${name} wurde entfernt. Die Token der App gelten nicht mehr.`,
}
