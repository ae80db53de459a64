import {
  acceptInvitation,
  getOrganization,
  inviteMember,
  leaveOrganization,
  listInvitations,
  listMemberships,
  removeMembership,
  revokeInvitation,
  updateMembership,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
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
  return { owner, organization, params: { id: organization.id }, api: world.client({ token: (await owner.token()).secret }) }
}

test('an invited person joins when they accept, and not before', async () => {
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

test('a second invitation replaces the first, and a withdrawn one opens nothing', async () => {
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

test('an invitation expires after a week, by itself', async () => {
  const { params, api, organization } = await owned()
  const guest = await world.person()
  await api.call(inviteMember, { params, body: { email: guest.email } })
  const token = tokenIn((await world.mail.next(guest.email)).text)
  world.clock.advance(7 * 86_400_000 + 1)
  const as = world.client({ cookie: await guest.cookie() })
  expect((await as.send(acceptInvitation, { body: { token } })).status).toBe(410)
  await eventually('the sweep closes it', async () => {
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

test('roles change, people leave and are removed; the owner stays', async () => {
  const { owner, organization, params, api } = await owned()
  const [ann, ben] = await Promise.all([world.person(), world.person()])
  await world.join(organization.id, ann.id, 'member')
  await world.join(organization.id, ben.id, 'admin')
  const annToken = world.client({ token: (await ann.token()).secret })
  expect(await api.call(updateMembership, { params: { ...params, user_id: ann.id }, body: { role: 'finance' } })).toMatchObject({
    role: 'finance',
    email: ann.email,
  })
  expect(await annToken.send(listMemberships, { params })).toMatchObject({ status: 403 })
  expect(await annToken.send(inviteMember, { params, body: { email: 'x@people.test' } })).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })

  const asBen = world.client({ token: (await ben.token()).secret })
  for (const attempt of [
    await asBen.send(updateMembership, { params: { ...params, user_id: owner.id }, body: { role: 'member' } }),
    await asBen.send(removeMembership, { params: { ...params, user_id: owner.id } }),
    await world.client({ cookie: await owner.cookie() }).send(leaveOrganization, { params }),
  ])
    expect(attempt).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })

  expect((await annToken.send(getOrganization, { params })).status).toBe(200)
  expect((await asBen.send(removeMembership, { params: { ...params, user_id: ann.id } })).status).toBe(204)
  expect((await annToken.send(getOrganization, { params })).status).toBe(404)
  expect((await asBen.send(removeMembership, { params: { ...params, user_id: ann.id } })).status).toBe(404)
  expect((await world.client({ cookie: await ben.cookie() }).send(leaveOrganization, { params })).status).toBe(204)
  expect((await asBen.send(getOrganization, { params })).status).toBe(404)
})

test('strangers see neither people nor invitations', async () => {
  const { params } = await owned()
  const stranger = world.client({ token: (await (await world.person()).token()).secret })
  const somebody = { ...params, user_id: params.id }
  for (const answer of [
    await stranger.send(listMemberships, { params }),
    await stranger.send(listInvitations, { params }),
    await stranger.send(inviteMember, { params, body: { email: 'x@people.test' } }),
    await stranger.send(updateMembership, { params: somebody, body: { role: 'member' } }),
    await stranger.send(removeMembership, { params: somebody }),
    await stranger.send(revokeInvitation, { params: { ...params, invitation_id: params.id } }),
  ])
    expect(answer).toMatchObject({ status: 404, body: { error: 'ResourceNotFound', detail: 'Not found' } })
})
