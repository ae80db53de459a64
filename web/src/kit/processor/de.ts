import type { en } from './en.ts'

export const de: typeof en = {
  notLoaded:
    'Das Formular des Zahlungsanbieters ließ sich nicht laden. Erlauben Sie sein Skript, oder laden Sie die Seite neu. Dadurch wurde nichts abgebucht.',
  needsScript: 'Zum Zahlen wird das Skript des Zahlungsanbieters gebraucht. Erlauben Sie Skripte für diese Seite, oder nehmen Sie einen anderen Browser.',
  loading: 'Das Formular des Zahlungsanbieters wird geladen.',
}
