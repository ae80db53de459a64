import type { en } from './en.ts'

export const de: typeof en = {
  renewable:
    'Ein Bezahlvorgang ist einen Tag lang offen. Es wurde nichts belastet. Sie können ihn noch einmal öffnen, zu den heutigen Preisen und mit allen Ihren Angaben.',
  renew: 'Noch einmal öffnen',
  expired: {
    title: 'Dieser Bezahlvorgang ist abgelaufen',
    text: 'Ein Bezahlvorgang ist einen Tag lang offen. Es wurde nichts belastet. Gehen Sie zum Shop zurück und beginnen Sie neu.',
  },
  link_needed: {
    title: 'Bitte öffnen Sie den Link noch einmal',
    text: 'Dieser Bezahlvorgang wurde in einem anderen Browser oder vor zu langer Zeit geöffnet. Öffnen Sie den Link, den Sie bekommen haben, noch einmal. Es ist nichts verloren.',
  },
  over: {
    title: 'Dieser Bezahlvorgang ist abgeschlossen',
    text: 'Diese Seite schließt wenige Minuten nach der Zahlung. Sie finden Ihren Kauf im Kundenportal des Shops und in der E-Mail, die wir Ihnen geschickt haben.',
  },
  ended: {
    title: 'Dieses Angebot ist beendet',
    text: 'Der Verkäufer bietet es über diesen Link nicht mehr an. Es wurde nichts belastet. Der Verkäufer kann Ihnen sagen, was es jetzt zu kaufen gibt.',
  },
  unknown: {
    title: 'Diesen Bezahlvorgang gibt es nicht',
    text: 'Vielleicht ist der Link unvollständig. Kopieren Sie den ganzen Link, oder gehen Sie zum Shop zurück und beginnen Sie neu.',
  },
  not_sold: { title: 'Dieses Produkt wird nicht mehr verkauft', text: 'Der Verkäufer hat es aus dem Verkauf genommen. Es wurde nichts belastet.' },
}
