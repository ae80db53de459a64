import type { en } from './en.ts'

export const de: typeof en = {
  title: (name) => `${name} möchte Ihr Bursar-Konto nutzen`,
  since: (date) => `Hier bekannt seit ${date}`,
  warning: (host) =>
    `Der Betreiber dieses Dienstes hat nicht geprüft, wer hinter dieser App steht. Fahren Sie nur fort, wenn Sie gerade von ${host} kommen und dieser Seite vertrauen.`,
  grave: 'Mit einigen dieser Berechtigungen kann die App Geld bewegen oder im Namen Ihrer Kunden handeln. Erlauben Sie sie nur, wenn die App das tun soll.',
  you: 'Sie sind',
  switch: 'Anderes Konto verwenden',
  permissions: 'Die App möchte',
  organizations: 'In welchen Organisationen?',
  chosen: 'Nur in denen, die ich auswähle',
  everywhere: 'In allen, denen ich angehöre, auch in späteren',
  again:
    'Fügen Sie Organisationen hinzu, erreicht die App sie erst, nachdem sie Sie neu angemeldet hat. Nehmen Sie Organisationen weg, verliert die App sofort den Zugriff darauf.',
  none: 'Sie gehören noch keiner Organisation an.',
  noneSingle:
    'Diese App arbeitet mit einer Organisation, und Sie gehören keiner an. Legen Sie eine an, oder bitten Sie den Inhaber einer Organisation um eine Einladung. Kommen Sie dann wieder.',
  one: 'Diese App arbeitet mit einer Organisation.',
  deny: 'Abbrechen',
  allow: 'Erlauben',
  next: (host) => `Sie gelangen danach zu ${host}.`,
  lasts: 'Der Zugriff gilt, bis Sie ihn unter Einstellungen → Verbundene Apps entfernen.',
  about: 'Über diese App',
  terms: 'Bedingungen',
  policy: 'Datenschutz',
}
