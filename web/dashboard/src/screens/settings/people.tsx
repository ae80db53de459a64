import { inviteMember, listInvitations, listMemberships, removeMembership, revokeInvitation } from '@bursar/contract'
import descriptor from 'form:OrganizationInvitationCreate'
import { useState } from 'react'
import { newKey, useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island, may } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { Time } from '../../kit/bits.tsx'
import { Confirm, Dialog } from '../../kit/dialog.tsx'
import { complaintsOf, Field, Form, textOf } from '../../kit/form.tsx'
import { Panel } from '../../kit/layout.tsx'
import { Failed, Loaded } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'

const params = { id: island.organization.id }
const roles = ['member', 'finance', 'admin'] as const

/** The colleagues who use this dashboard, and the invitations that are open. */
const People = () => {
  const query = { limit: 100 }
  const read = useRead(listMemberships, { params, query })
  const invitations = useRead(listInvitations, { params, query })
  useAsCode(listMemberships, { params, query })
  const [inviting, setInviting] = useState(false)
  const [leaving, setLeaving] = useState<{ user_id: string; email: string } | null>(null)
  const withdraw = useChange(revokeInvitation, ['organizations'])
  const p = t.settings.people
  const open = invitations.data?.items.filter(({ status }) => status === 'pending') ?? []
  return (
    <>
      <Panel
        title={p.title}
        actions={
          may('members:manage') && (
            <button type="button" className="primary" onClick={() => setInviting(true)}>
              {p.invite}
            </button>
          )
        }
      >
        <Loaded read={read}>
          {({ items }) => (
            <ul className="rows">
              {items.map(({ user_id, email, role, created_at }) => (
                <li key={user_id}>
                  <span>{email}</span>
                  <span className="tag">{p.roles[role]}</span>
                  <Time at={created_at} />
                  {may('members:manage') && role !== 'owner' && user_id !== island.person.id && (
                    <button type="button" aria-label={p.removeOf(email)} onClick={() => setLeaving({ user_id, email })}>
                      {p.remove}
                    </button>
                  )}
                </li>
              ))}
            </ul>
          )}
        </Loaded>
      </Panel>
      {(invitations.error || open.length > 0) && (
        <Panel title={p.invitations}>
          {(invitations.error ?? withdraw.error) && <Failed error={(invitations.error ?? withdraw.error)!} />}
          <ul className="rows">
            {open.map(({ id, email, role, expires_at }) => (
              <li key={id}>
                <span>{email}</span>
                <span className="tag">{p.roles[role]}</span>
                <span className="soft">
                  {p.expires} <Time at={expires_at} />
                </span>
                {may('members:manage') && (
                  <button
                    type="button"
                    aria-label={p.withdrawOf(email)}
                    onClick={() => withdraw.mutate({ params: { ...params, invitation_id: id } }, { onSuccess: () => toast(p.withdrawn) })}
                  >
                    {p.withdraw}
                  </button>
                )}
              </li>
            ))}
          </ul>
        </Panel>
      )}
      {inviting && <Invite onClose={() => setInviting(false)} />}
      {leaving && <Remove {...leaving} onClose={() => setLeaving(null)} />}
    </>
  )
}
export default People

const Invite = ({ onClose }: { onClose: () => void }) => {
  const [key] = useState(newKey)
  const [role, setRole] = useState<(typeof roles)[number]>('member')
  const invite = useChange(inviteMember, ['organizations'])
  const complaints = complaintsOf(invite.error)
  const p = t.settings.people
  return (
    <Dialog title={p.invite} onClose={onClose}>
      <Form
        label={p.invite}
        send={p.send}
        onCancel={onClose}
        busy={invite.isPending}
        error={invite.error}
        fields={['email', 'role']}
        onSend={(data) => {
          const email = textOf(data, 'email') ?? ''
          invite.mutate(
            { params, body: { email, role }, headers: { 'idempotency-key': key } },
            {
              onSuccess: () => {
                toast(p.invited(email))
                onClose()
              },
            },
          )
        }}
      >
        <Field name="email" label={p.email} facts={descriptor.email} complaint={complaints.email} autoFocus />
        <Field
          name="role"
          label={p.role}
          required
          value={role}
          choices={roles.map((name) => [name, p.roles[name]] as const)}
          onChange={(value) => setRole(value as typeof role)}
          complaint={complaints.role}
        />
        <p className="soft" aria-live="polite">
          {p.rolesAbout[role]}
        </p>
      </Form>
    </Dialog>
  )
}

const Remove = ({ user_id, email, onClose }: { user_id: string; email: string; onClose: () => void }) => {
  const remove = useChange(removeMembership, ['organizations'])
  const p = t.settings.people
  return (
    <Confirm
      title={p.removeOf(email)}
      act={p.remove}
      busy={remove.isPending}
      error={remove.error && <Failed error={remove.error} />}
      onClose={onClose}
      onAct={() =>
        remove.mutate(
          { params: { ...params, user_id } },
          {
            onSuccess: () => {
              toast(p.removed)
              onClose()
            },
          },
        )
      }
    >
      <p>{p.removeAbout}</p>
    </Confirm>
  )
}
