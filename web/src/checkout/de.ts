import type { en } from './en.ts'

export const de: typeof en = {
  backTo: 'Zurück zum Shop',
}
