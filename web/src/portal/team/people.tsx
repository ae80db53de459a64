import type { Frame, PortalMember, PortalPool, PortalSeat, PortalShell } from '@bursar/views'
import { Confirm, Form, Status, textsIn } from '../../kit/index.ts'
import { Day } from '../dated.tsx'
import { portalTexts } from '../texts.ts'
import { texts } from './texts.ts'

interface PeopleProps {
  readonly frame: Frame
  readonly shell: PortalShell
  readonly pool: PortalPool
  readonly here: string
  /** True if the reader may change roles. */
  readonly leads: boolean
}

/** All seats, one row each, or one card each on a phone. */
export const People = ({ frame, shell, pool, here, leads }: PeopleProps) => {
  const shared = textsIn(frame, portalTexts)
  const words = textsIn(frame, texts)
  return (
    <div className="scroll">
      <table className="people">
        <caption className="hidden">{`${words.people}: ${pool.name}`}</caption>
        <thead>
          <tr>
            <th scope="col">{words.columns.person}</th>
            <th scope="col">{words.columns.status}</th>
            <th scope="col">{words.columns.role}</th>
            <th scope="col">{words.columns.since}</th>
            <th scope="col">{words.columns.actions}</th>
          </tr>
        </thead>
        <tbody>
          {pool.people.map((seat) => {
            const email = seat.customer_email ?? seat.email ?? ''
            const { member } = seat
            return (
              <tr key={seat.id} id={`seat-${seat.id}`}>
                <th scope="row">
                  {member?.name ?? email} {email === shell.reader.email && <span className="tag">{words.you}</span>}
                  {member?.name && <span className="soft under">{email}</span>}
                </th>
                <td data-label={words.columns.status}>
                  <SeatStatus frame={frame} seat={seat} />
                </td>
                <td data-label={words.columns.role}>{member ? shared.roles[member.role] : '–'}</td>
                <td data-label={words.columns.since}>
                  <Day frame={frame} at={seat.revoked_at ?? seat.claimed_at ?? seat.created_at} />
                </td>
                <td>
                  {seat.status !== 'revoked' && (
                    <details className="menu">
                      <summary>
                        {words.manage} <span className="hidden">{email}</span>
                      </summary>
                      {seat.status === 'pending' && (
                        <Form frame={frame} action={here}>
                          <input type="hidden" name="seat_id" value={seat.id} />
                          <button name="do" value="resend">
                            {words.resend}
                          </button>
                        </Form>
                      )}
                      {leads && member && <RoleForm frame={frame} shell={shell} member={member} here={here} />}
                      <Confirm label={words.revoke} consequence={words.loses(email, pool.gives)}>
                        <Form frame={frame} action={here}>
                          <input type="hidden" name="seat_id" value={seat.id} />
                          <button className="danger" name="do" value="revoke">
                            {words.revokeNow}
                          </button>
                        </Form>
                      </Confirm>
                    </details>
                  )}
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

const SeatStatus = ({ frame, seat }: { frame: Frame; seat: PortalSeat }) => {
  const { seatStatuses: statuses } = textsIn(frame, portalTexts)
  if (seat.status === 'claimed') return <Status kind="good">{statuses.active}</Status>
  if (seat.status === 'revoked') return <Status kind="off">{statuses.revoked}</Status>
  const over = seat.invitation_token_expires_at !== null && new Date(seat.invitation_token_expires_at) <= frame.now
  return <Status kind={over ? 'bad' : 'wait'}>{over ? statuses.expired : statuses.invited}</Status>
}

/** The role of a member, with a form to change it. If it cannot be changed, the reason is shown at the control. */
export const RoleForm = ({
  frame,
  shell,
  member,
  here,
}: {
  frame: Frame
  shell: PortalShell
  member: Pick<PortalMember, 'id' | 'email' | 'role'>
  here: string
}) => {
  const shared = textsIn(frame, portalTexts)
  const words = textsIn(frame, texts)
  const reason = member.email === shell.reader.email ? words.ownRole : member.role === 'owner' ? words.lastOwner : undefined
  const roles = ['member', 'billing_manager', ...(member.role === 'owner' || shell.reader.role === 'owner' ? ['owner'] : [])]
  const id = `role-${member.id}`
  return (
    <Form frame={frame} action={here} className="role">
      <input type="hidden" name="member_id" value={member.id} />
      <label htmlFor={id}>
        {words.columns.role} <span className="hidden">{member.email}</span>
      </label>
      <select id={id} name="role" defaultValue={member.role} disabled={reason !== undefined} aria-describedby={`${id}-may`}>
        {roles.map((role) => (
          <option key={role} value={role}>
            {role === 'owner' && member.role !== 'owner' ? words.handOver : shared.roles[role]}
          </option>
        ))}
      </select>
      <p id={`${id}-may`} className="soft">
        {reason ?? roles.map((role) => <span key={role}>{`${shared.roles[role]}: ${words.may[role]}`}</span>)}
      </p>
      {reason === undefined && (
        <button name="do" value="role">
          {words.changeRole}
        </button>
      )}
    </Form>
  )
}
