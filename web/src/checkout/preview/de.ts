import type { en } from './en.ts'

export const de: typeof en = {
  buy: (product, seller) => `${product} von ${seller}`,
  buyText: (seller) => `Sicher bezahlen bei ${seller}.`,
  claim: (seller) => `Ihr Platz bei ${seller}`,
  claimText: 'Sie wurden zu einem Platz eingeladen. Öffnen Sie den Link, um ihn anzunehmen.',
  continue: 'Weiter',
}
