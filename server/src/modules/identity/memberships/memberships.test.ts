import {
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
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const owned = async () => {
  const owner = await world.person()
  const organization = await world.organization({ owner: owner.id })
  return { owner, organization, params: { id: organization.id }, api: world.client({ cookie: await owner.cookie() }) }
}

test('applies role changes, removals and departures from the next request on, and protects the owner', async () => {
  const { owner, organization, params, api } = await owned()
  const [ann, ben] = await Promise.all([world.person(), world.person()])
  await world.join(organization.id, ann.id, 'member')
  await world.join(organization.id, ben.id, 'admin')
  const annToken = world.client({ token: (await ann.token()).secret })
  const asAnn = world.client({ cookie: await ann.cookie() })
  expect(await api.call(updateMembership, { params: { ...params, user_id: ann.id }, body: { role: 'finance' } })).toMatchObject({
    role: 'finance',
    email: ann.email,
  })
  expect(await annToken.send(listMemberships, { params })).toMatchObject({ status: 403 })
  expect(await asAnn.send(inviteMember, { params, body: { email: 'x@people.test' } })).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })

  const asBen = world.client({ cookie: await ben.cookie() })
  for (const attempt of [
    await asBen.send(updateMembership, { params: { ...params, user_id: owner.id }, body: { role: 'member' } }),
    await asBen.send(removeMembership, { params: { ...params, user_id: owner.id } }),
    await api.send(leaveOrganization, { params }),
  ])
    expect(attempt).toMatchObject({ status: 403, body: { error: 'NotPermitted' } })

  expect((await annToken.send(getOrganization, { params })).status).toBe(200)
  expect((await asBen.send(removeMembership, { params: { ...params, user_id: ann.id } })).status).toBe(204)
  expect((await annToken.send(getOrganization, { params })).status).toBe(404)
  expect((await asBen.send(removeMembership, { params: { ...params, user_id: ann.id } })).status).toBe(404)
  expect((await asBen.send(leaveOrganization, { params })).status).toBe(204)
  expect((await asBen.send(getOrganization, { params })).status).toBe(404)
  expect((await api.call(listMemberships, { params })).items).toMatchObject([{ user_id: owner.id, role: 'owner' }])
})

test('does not let any token change memberships, regardless of its scopes', async () => {
  const { owner, organization, params } = await owned()
  for (const token of [(await owner.token()).secret, (await organization.token()).secret]) {
    const api = world.client({ token })
    expect(await api.send(inviteMember, { params, body: { email: 'eve@people.test', role: 'admin' } })).toMatchObject({
      status: 403,
      body: { error: 'NotPermitted' },
    })
    expect(await api.send(updateMembership, { params: { ...params, user_id: owner.id }, body: { role: 'admin' } })).toMatchObject({
      status: 403,
      body: { error: 'NotPermitted' },
    })
    expect((await api.call(listMemberships, { params })).pagination.total_count).toBe(1)
  }
})

test('hides the members and invitations of an organization from users outside it', async () => {
  const { params } = await owned()
  const stranger = world.client({ cookie: await (await world.person()).cookie() })
  const somebody = { ...params, user_id: params.id }
  for (const answer of [
    await stranger.send(listMemberships, { params }),
    await stranger.send(listInvitations, { params }),
    await stranger.send(inviteMember, { params, body: { email: 'x@people.test' } }),
    await stranger.send(updateMembership, { params: somebody, body: { role: 'member' } }),
    await stranger.send(removeMembership, { params: somebody }),
    await stranger.send(leaveOrganization, { params }),
    await stranger.send(revokeInvitation, { params: { ...params, invitation_id: params.id } }),
  ])
    expect(answer).toMatchObject({ status: 404, body: { error: 'ResourceNotFound', detail: 'Not found' } })
})
