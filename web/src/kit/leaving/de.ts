import type { en } from './en.ts'

export const de: typeof en = {
  title: 'Einen Moment',
  link: (host) => `Weiter zu ${host}`,
}
