import type { Frame, Invitations, Invited } from '@bursar/contract'
import { said, speak, Status } from '../kit.tsx'

const kinds = { invited: 'good', has_one: 'off', no_address: 'bad', no_seat: 'wait', not_asked: 'wait', refused: 'bad' } as const

const isDone = ({ result }: Invited) => result === 'invited' || result === 'has_one'

/** What could not be done, for the field that it came from. */
export const leftOf = (invited: Invitations | null): string =>
  (invited?.people ?? [])
    .filter((one) => !isDone(one))
    .map(({ address }) => address)
    .join('\n')

/** Nothing that was written could be an address. */
export const isEmpty = (invited: Invitations | null): boolean => invited !== null && invited.people.every(({ result }) => result === 'no_address')

/** How many were invited, in a sentence. */
export const saidOf = (frame: Frame, invited: Invitations | null): string | undefined =>
  invited ? speak(frame).t.inviting.said(invited.people.filter(({ result }) => result === 'invited').length) : undefined

/** What came of everybody who was pasted, one by one, and what to do with those who were not asked. */
export const InviteResults = ({ frame, invited, signIn }: { frame: Frame; invited: Invitations; signIn: string }) => {
  const words = speak(frame).t.inviting
  const { people, halted } = invited
  const rest = people.filter(({ result }) => result === 'not_asked').length
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
      {halted !== null && halted !== 'full' && (
        <p>
          {words.halted[halted](rest)} {halted === 'signed_out' && <a href={signIn}>{words.signIn}</a>}
        </p>
      )}
    </div>
  )
}
