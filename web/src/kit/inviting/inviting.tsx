import type { Frame, Invitations, Invited } from '@bursar/views'
import { Countdown, said, speak, Status, textsIn } from '../index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

/** The texts of the invitation results, and the error for a form that was submitted without an address. */
export const invitingTexts = { en, de }

const kinds = { invited: 'good', has_one: 'off', no_address: 'bad', no_seat: 'wait', not_asked: 'wait', refused: 'bad' } as const

const isDone = ({ result }: Invited) => result === 'invited' || result === 'has_one'

/** Returns the addresses that were not invited, for the input field. */
export const leftOf = (invited: Invitations | null): string =>
  (invited?.people ?? [])
    .filter((one) => !isDone(one))
    .map(({ address }) => address)
    .join('\n')

/** True if the input had no address at all. */
export const isEmpty = (invited: Invitations | null): boolean => invited !== null && invited.people.every(({ result }) => result === 'no_address')

/** Returns a sentence with the number of invited people. */
export const saidOf = (frame: Frame, invited: Invitations | null): string | undefined =>
  invited ? textsIn(frame, invitingTexts).said(invited.people.filter(({ result }) => result === 'invited').length) : undefined

interface ResultsProps {
  readonly frame: Frame
  readonly invited: Invitations
  /** The address of the sign-in page. */
  readonly signIn: string
  /** The id of the button that sends the rest. The script presses it after a limit has ended. Null on a page without the form. */
  readonly send: string | null
}

/** The result of each pasted address, and the next step for those that were not invited. */
export const InviteResults = ({ frame, invited, signIn, send }: ResultsProps) => {
  const { wait } = speak(frame)
  const words = textsIn(frame, invitingTexts)
  const { people, halted } = invited
  const rest = people.filter(({ result }) => result === 'not_asked').length
  const seconds = invited.wait_seconds ?? 60
  if (people.length === 0) return null
  return (
    <div className="results" role="status">
      <p>
        <strong>{words.results}</strong>
      </p>
      <ul>
        {people.map(({ address, result, why }) => (
          <li key={`${result} ${address}`}>
            <span>{address}</span> <Status kind={kinds[result]}>{words.result[result]}</Status>
            {why && <span className="soft"> {said(frame, why)}</span>}
          </li>
        ))}
      </ul>
      {halted === 'wait' && send !== null && <Countdown frame={frame} seconds={seconds} text={words.wait(rest)} then={send} />}
      {halted === 'wait' && send === null && <p>{[words.wait(rest)[0], ' ', wait(seconds), words.wait(rest)[1]].join('')}</p>}
      {(halted === 'at_once' || halted === 'signed_out') && (
        <p>
          {words.halted[halted](rest)} {halted === 'signed_out' && <a href={signIn}>{words.signIn}</a>}
        </p>
      )}
    </div>
  )
}
