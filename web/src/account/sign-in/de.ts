import { pluralIn } from '@bursar/views'
import type { en } from './en.ts'

const plural = pluralIn('de')

export const de: typeof en = {
  continueTo: (name) => `um mit ${name} fortzufahren`,
  email: 'E-Mail-Adresse',
  sendCode: 'Code zusenden',
  codeTitle: 'Prüfen Sie Ihren Posteingang',
  codeSent: (email) => `Wenn ${email} sich hier anmelden kann, ist ein Code unterwegs. Er gilt 15 Minuten.`,
  codeResent: 'Ein neuer Code ist unterwegs. Der vorige gilt nicht mehr.',
  code: 'Code aus der E-Mail',
  submit: 'Anmelden',
  again: 'Neuen Code zusenden',
  beginAgain: 'Von vorn beginnen',
  otherAddress: 'Andere Adresse verwenden',
  factorTitle: 'Zweiter Faktor',
  factorHint: 'Öffnen Sie Ihre Authenticator-App, oder nehmen Sie einen Wiederherstellungscode.',
  triesLeft: (count) => plural(count, { one: 'Sie haben noch einen Versuch.', other: `Sie haben noch ${count} Versuche.` }),
}
