import type { Frame, PageSeller } from '@bursar/views'
import { speak, textsIn } from '../speak.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

interface CountdownProps {
  readonly frame: Frame
  readonly seconds: number
  /** The text before and after the remaining wait. */
  readonly text: readonly [string, string]
  readonly kind?: 'warn' | 'bad'
  /** The id of the button that the script presses at the end. Without it, the script loads the page again. */
  readonly then?: string
}

/**
 * The remaining wait of a page that goes on by itself. The script counts down, and then presses the named button or
 * loads the page again. Without the script, the reader presses a button of the page.
 */
export const Countdown = ({ frame, seconds, text, kind = 'warn', then }: CountdownProps) => {
  const { wait } = speak(frame)
  return (
    <p className={`notice ${kind}`} data-wait={seconds} data-then={then}>
      {text[0]}{' '}
      <strong role="timer" aria-live="off">
        {wait(seconds)}
      </strong>
      {text[1]}
    </p>
  )
}

interface LeadingProps {
  readonly frame: Frame
  readonly seller: PageSeller | null
  /** True on a page of a person's account. */
  readonly account?: boolean
  /** True if the page has no other main action. The first link is then a button. */
  readonly primary?: boolean
}

/** Links from an error page to the seller's website and portal, or to the account of the person. */
export const LeadingOn = ({ frame, seller, account = false, primary = false }: LeadingProps) => {
  const words = textsIn(frame, texts)
  const places = [
    ...(seller?.website ? [[seller.website, words.toSeller(seller.name)]] : []),
    ...(seller?.slug ? [[`/${seller.slug}/portal`, words.toPortal(seller.name)]] : []),
    ...(account ? [['/settings/apps', words.home]] : []),
  ]
  if (places.length === 0) return account ? null : <p className="soft">{words.mails}</p>
  return (
    <ul className="leads">
      {places.map(([to, name], at) => (
        <li key={to}>
          <a className={primary && at === 0 ? 'button primary' : undefined} href={to}>
            {name}
          </a>
        </li>
      ))}
    </ul>
  )
}
