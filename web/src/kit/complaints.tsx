import type { Complaint, Frame } from '@bursar/views'
import { speak, type Spoken } from './speak.ts'

/**
 * Translates an API error into the reader's language: by its field, or by its type. English readers see the API's own
 * message for other errors. Other readers see a generic sentence.
 */
export const said = (frame: Frame, { loc, type, msg, wait_seconds }: Complaint): string => {
  const { t, wait } = speak(frame)
  if (wait_seconds !== undefined) return t.tooMany(wait(wait_seconds))
  const field = loc
    .slice(1)
    .join('.')
    .replace(/^customer_/, '')
  const missing = type === 'missing' && !field.startsWith('billing_address')
  const own = missing ? undefined : (t.wrong[field] ?? t.wrong[field.split('.')[0]! + '.'])
  return type === 'worded' ? msg : (own ?? t.complaints[type] ?? t.declines[msg] ?? (frame.locale === 'en' && msg !== '' ? msg : t.complaints.other!))
}

/** Translates the reason why a card was declined. */
export const refusedBy = (frame: Spoken, why: string): string => {
  const { declines } = speak(frame).t
  return declines[why] ?? (frame.locale === 'en' && why !== '' ? why : declines.other!)
}

/** Returns the error of one field. */
export const complaintAt = (frame: Frame, complaints: readonly Complaint[], ...loc: readonly (string | number)[]): string | undefined => {
  const found = complaints.find((one) => one.loc.length === loc.length + 1 && loc.every((part, at) => one.loc[at + 1] === part))
  return found && said(frame, found)
}

/** All API errors above the form, each with a link to its field if there is one. */
export const Complaints = ({
  frame,
  complaints,
  labels = {},
}: {
  frame: Frame
  complaints: readonly Complaint[]
  /** The labels of the fields by name, for errors that do not name their field. */
  labels?: Readonly<Record<string, string>>
}) => {
  const { t } = speak(frame)
  if (complaints.length === 0) return null
  const worded = (one: Complaint) => {
    const label = labels[one.loc.slice(1).join('.')]
    return label === undefined ? said(frame, one) : `${label}: ${said(frame, one)}`
  }
  return (
    <div className="notice bad" role="alert">
      <strong>{t.check}</strong>
      <ul>
        {complaints.map((one) => (
          <li key={`${one.loc.join('.')} ${one.type}`}>{one.loc.length > 1 ? <a href={`#${one.loc.slice(1).join('.')}`}>{worded(one)}</a> : worded(one)}</li>
        ))}
      </ul>
    </div>
  )
}
