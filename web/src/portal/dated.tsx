import type { Frame } from '@bursar/views'
import { speak, textsIn } from '../kit/index.ts'
import { portalTexts } from './texts.ts'

/** A date in UTC. The script shows it in the time zone of the reader. */
export const Day = ({ frame, at }: { frame: Frame; at: Date | string }) => {
  const { date } = speak(frame)
  return <time dateTime={new Date(at).toISOString()}>{date(at)}</time>
}

/** A time of day in UTC, with the name of the zone. The script shows it in the time zone of the reader. */
export const TimeOfDay = ({ frame, at }: { frame: Frame; at: Date | string }) => (
  <time dateTime={new Date(at).toISOString()} data-clock="">
    {new Intl.DateTimeFormat(frame.locale, { timeStyle: 'short', timeZone: 'UTC' }).format(new Date(at))} UTC
  </time>
)

/** Stands for the date while a sentence is formed. No text contains it. */
const place = '\u{FFFC}'

/** A sentence with a date. The text receives the place of the date. */
export const Dated = ({ frame, at, text }: { frame: Frame; at: Date | string; text: (day: string) => string }) => {
  const [before, ...after] = text(place).split(place)
  return (
    <>
      {before}
      {after.map((rest, index) => (
        <span key={index}>
          <Day frame={frame} at={at} />
          {rest}
        </span>
      ))}
    </>
  )
}

/** Names the time zone of the dates on the page. The script replaces it with the name of the reader's zone. */
export const Zone = ({ frame }: { frame: Frame }) => {
  const { zone } = textsIn(frame, portalTexts)
  return (
    <p className="soft" data-zone={zone.local}>
      {zone.utc}
    </p>
  )
}
