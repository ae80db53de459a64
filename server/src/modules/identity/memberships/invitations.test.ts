import {
  acceptInvitation,
  getOrganization,
  inviteMember,
  listInvitations,
  listMemberships,
  requestSignInCode,
  revokeInvitation,
  updateMembership,
  verifySignInCode,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { codeIn } from '../../../../test/harness/mail.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const tokenIn = (text: string) => /bursar_test_inv_\w{43}/.exec(text)![0]
const owned = async () => {
  const owner = await world.person()
  const organization = await world.organization({ owner: owner.id })
  return { owner, organization, params: { id: organization.id }, api: world.client({ cookie: await owner.cookie() }) }
}

test('adds an invited user only when they accept, and accepts an invitation once', async () => {
  const { organization, params, api } = await owned()
  const guest = await world.person({ email: `Guest-${organization.slug}@people.test` })
  const invitation = await api.call(inviteMember, { params, body: { email: guest.email.toLowerCase(), role: 'finance' } })
  expect(invitation).toMatchObject({ status: 'pending', role: 'finance' })
  const as = world.client({ cookie: await guest.cookie() })
  expect((await as.send(getOrganization, { params })).status).toBe(404)
  const token = tokenIn((await world.mail.next(guest.email.toLowerCase())).text)

  const other = world.client({ cookie: await (await world.person()).cookie() })
  expect(await other.send(acceptInvitation, { body: { token } })).toMatchObject({ status: 410, body: { error: 'InvitationInvalid' } })

  const tries = await Promise.all([1, 2, 3].map(() => as.send(acceptInvitation, { body: { token } })))
  expect(tries.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 410, 410])
  expect((await as.send(getOrganization, { params })).status).toBe(200)
  expect((await api.call(listInvitations, { params })).items).toMatchObject([{ id: invitation.id, status: 'accepted' }])
  expect((await api.call(listMemberships, { params })).items.map(({ role }) => role).toSorted()).toEqual(['finance', 'owner'])
})

test('a second invitation of an address replaces the first, and a withdrawn invitation is rejected', async () => {
  const { params, api } = await owned()
  const guest = await world.person()
  const as = world.client({ cookie: await guest.cookie() })
  await api.call(inviteMember, { params, body: { email: guest.email } })
  const first = tokenIn((await world.mail.next(guest.email)).text)
  const again = await api.call(inviteMember, { params, body: { email: guest.email } })
  const second = tokenIn((await world.mail.next(guest.email)).text)
  expect((await api.call(listInvitations, { params })).pagination.total_count).toBe(1)
  expect((await as.send(acceptInvitation, { body: { token: first } })).status).toBe(410)
  expect((await api.send(revokeInvitation, { params: { ...params, invitation_id: again.id } })).status).toBe(204)
  expect((await as.send(acceptInvitation, { body: { token: second } })).status).toBe(410)
  expect((await api.send(revokeInvitation, { params: { ...params, invitation_id: again.id } })).status).toBe(404)
})

test('a sweep expires an invitation after a week', async () => {
  const { params, api, organization } = await owned()
  const guest = await world.person()
  await api.call(inviteMember, { params, body: { email: guest.email } })
  const token = tokenIn((await world.mail.next(guest.email)).text)
  world.clock.advance(7 * 86_400_000 + 1)
  const as = world.client({ cookie: await guest.cookie() })
  expect((await as.send(acceptInvitation, { body: { token } })).status).toBe(410)
  await eventually('the periodic task marks the invitation as expired', async () => {
    const { rows } = await world.database.owner((owner) =>
      owner.query('select status, due_at, lease_token from organization_invitations where organization_id = $1', [organization.id]),
    )
    return rows[0].status === 'expired' && rows[0].due_at === null && rows[0].lease_token === null
  })
  const { rows } = await world.database.owner((owner) =>
    owner.query(`select 1 from credentials where kind = 'invitation' and organization_id = $1`, [organization.id]),
  )
  expect(rows).toEqual([])
})

test('creates one invitation when concurrent requests invite the same address', async () => {
  const { params, api } = await owned()
  const answers = await Promise.all(Array.from({ length: 8 }, () => api.send(inviteMember, { params, body: { email: 'crowd@people.test' } })))
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 201))
  expect((await api.call(listInvitations, { params })).pagination.total_count).toBe(1)
})

test('rejects an invitation whose sender has lost the right to invite', async () => {
  const { owner, organization, params, api } = await owned()
  const [admin, accomplice] = await Promise.all([world.person(), world.person()])
  await world.join(organization.id, admin.id, 'admin')
  const asAdmin = world.client({ cookie: await admin.cookie() })
  expect(await asAdmin.send(inviteMember, { params, body: { email: admin.email.toUpperCase(), role: 'admin' } })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'email'] }] },
  })
  await asAdmin.call(inviteMember, { params, body: { email: accomplice.email, role: 'admin' } })
  const token = tokenIn((await world.mail.next(accomplice.email)).text)
  await api.call(updateMembership, { params: { ...params, user_id: admin.id }, body: { role: 'member' } })
  const asAccomplice = world.client({ cookie: await accomplice.cookie() })
  expect((await asAccomplice.send(acceptInvitation, { body: { token } })).status).toBe(410)

  // Acceptance checks the right of the sender again, even if the role change did not withdraw the invitation.
  await api.call(inviteMember, { params, body: { email: accomplice.email } })
  const second = tokenIn((await world.mail.next(accomplice.email)).text)
  await world.database.owner((client) =>
    client.query('update organization_invitations set invited_by = $2 where organization_id = $1', [organization.id, admin.id]),
  )
  expect((await asAccomplice.send(acceptInvitation, { body: { token: second } })).status).toBe(410)
  await world.database.owner((client) =>
    client.query('update organization_invitations set invited_by = $2 where organization_id = $1', [organization.id, owner.id]),
  )
  expect((await asAccomplice.send(acceptInvitation, { body: { token: second } })).status).toBe(200)
})

test('lets an invited user sign in although sign-up is closed', async () => {
  const { organization, params, api } = await owned()
  const email = `newcomer-${organization.slug}@people.test`
  await api.call(inviteMember, { params, body: { email } })
  const token = tokenIn((await world.mail.next(email)).text)
  const open = world.client()
  await open.call(requestSignInCode, { body: { email } })
  const code = codeIn((await world.mail.next(email)).text)
  const signedIn = await open.send(verifySignInCode, { body: { email, code } })
  const cookie = signedIn.headers.get('set-cookie')!.split(';')[0]!
  expect((await world.client({ cookie }).send(acceptInvitation, { body: { token } })).status).toBe(200)
})
