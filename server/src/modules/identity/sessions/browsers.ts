import { blockOf } from '../../../kernel/networks.ts'
import { randomText, sameText, Secret } from '../../../kernel/secrets.ts'
import { days, minutes, seconds } from '../../../platform/clock.ts'
import type { CodeOrigin, Mailbox } from '../../../platform/postgres/codes.sql.ts'
import type { Call, Platform } from '../../handlers.ts'
import { hostCookie, readCookie, setCookie } from './cookies.ts'

/** Source of a request: its IP address and cookies. */
export interface Caller {
  readonly address: string
  readonly cookies: string | undefined
}

/** Returns the IP address and the cookies of an operation call. */
export const callerOf = ({ address, raw }: Pick<Call, 'address' | 'raw'>): Caller => ({ address, cookies: raw.headers.cookie as string | undefined })

export const codeLife = 15 * minutes
/** Time for which a browser stays recognized after a sign-in. */
const recognisedLife = 180 * days
/** Maximum number of mailboxes for which one browser is recognized. The oldest mailbox is dropped. */
const mostMarks = 8
const alphabet = 'abcdefghijklmnopqrstuvwxyz234567'

const codeCookie = ({ config }: Pick<Platform, 'config'>) => hostCookie(config, 'code')
const recognisedCookie = ({ config }: Pick<Platform, 'config'>) => hostCookie(config, 'recognised')

/** The browser that requested a code, identified by a random value in a cookie. `wrong` is the number of wrong codes since the request. */
export interface CodeBrowser {
  readonly value: string
  readonly wrong: number
}

export const readCodeBrowser = (platform: Pick<Platform, 'config'>, cookies: string | undefined): CodeBrowser | undefined => {
  const [, value, wrong] = /^([a-z2-7]{32})-(\d)$/.exec(readCookie(cookies, codeCookie(platform)) ?? '') ?? []
  return value === undefined ? undefined : { value, wrong: Number(wrong) }
}

/** Returns the cookie that binds a code to its browser. The count in the cookie is for display only. The limit uses the count in the database. */
export const keepCodeBrowser = (platform: Platform, { value, wrong }: CodeBrowser): string =>
  setCookie(platform.config, codeCookie(platform), `${value}-${wrong}`, codeLife / seconds)

export const forgetCodeBrowser = (platform: Platform): string => setCookie(platform.config, codeCookie(platform), '', 0)

/** Returns the browser that requests a code. Reuses the value from the cookie of an earlier request, or generates a new one. */
export const codeBrowserOf = (platform: Platform, { cookies }: Caller): CodeBrowser => ({
  value: readCodeBrowser(platform, cookies)?.value ?? randomText(32, alphabet),
  wrong: 0,
})

const nameOf = (mailbox: Mailbox): string =>
  `${mailbox.table === 'sign_in_codes' ? 'sign-in' : `portal ${mailbox.organization_id}`} ${mailbox.email.toLowerCase()}`

/** Computes keyed digests of the caller's network and browser for one mailbox. Without the cookie there is no digest of the browser. */
export const originOf = (platform: Platform, mailbox: Mailbox, caller: Caller, browser = readCodeBrowser(platform, caller.cookies)): CodeOrigin => {
  const { hasher } = platform
  return {
    network: hasher.digest(`code network ${nameOf(mailbox)} ${blockOf(caller.address)}`),
    browsers: browser ? hasher.candidates(new Secret(`code browser ${nameOf(mailbox)} ${browser.value}`)) : [],
    recognised: isRecognised(platform, mailbox, caller),
  }
}

interface Marks {
  readonly browser: string
  readonly marks: readonly { readonly day: number; readonly mac: string }[]
}

const readMarks = (platform: Platform, { cookies }: Caller): Marks | undefined => {
  const [browser = '', ...rest] = (readCookie(cookies, recognisedCookie(platform)) ?? '').split('.')
  if (!/^[a-z2-7]{24}$/.test(browser)) return undefined
  const marks = rest.slice(0, mostMarks).flatMap((text) => {
    const [, day, mac] = /^(\d{1,6})-([0-9a-f]{32})$/.exec(text) ?? []
    return mac === undefined ? [] : [{ day: Number(day), mac }]
  })
  return { browser, marks }
}

const today = ({ clock }: Platform): number => Math.floor(clock.wall().getTime() / (1 * days))

const macs = ({ hasher }: Platform, mailbox: Mailbox, browser: string, day: number): string[] =>
  hasher.candidates(new Secret(`recognised browser ${browser} ${day} ${nameOf(mailbox)}`)).map((hash) => hash.slice(0, 32))

/** Returns true if this browser has signed in with the mailbox before. The cookie contains keyed digests and no address. */
const isRecognised = (platform: Platform, mailbox: Mailbox, caller: Caller): boolean => {
  const found = readMarks(platform, caller)
  return (
    found !== undefined &&
    found.marks.some(({ day, mac }) => day >= today(platform) && macs(platform, mailbox, found.browser, day).some((one) => sameText(one, mac)))
  )
}

/** Returns the cookie of a browser that has just signed in with a mailbox. Entries of other mailboxes in the cookie are kept. */
export const recogniseBrowser = (platform: Platform, mailbox: Mailbox, caller: Caller): string => {
  const { browser, marks } = readMarks(platform, caller) ?? { browser: randomText(24, alphabet), marks: [] }
  const others = marks.filter(({ day, mac }) => day >= today(platform) && !macs(platform, mailbox, browser, day).some((one) => sameText(one, mac)))
  const day = today(platform) + recognisedLife / (1 * days)
  const kept = [{ day, mac: macs(platform, mailbox, browser, day)[0]! }, ...others].slice(0, mostMarks)
  const value = [browser, ...kept.map((mark) => `${mark.day}-${mark.mac}`)].join('.')
  return setCookie(platform.config, recognisedCookie(platform), value, recognisedLife / seconds)
}
