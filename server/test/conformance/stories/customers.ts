import assert from 'node:assert/strict'
import { connect } from '@bursar/contract/client'
import { authenticatePortalCode, requestPortalCode } from '@bursar/contract'
import { codeIn } from '../../harness/mail.ts'
import { exchange } from '../../harness/world.ts'
import type { Story } from '../run.ts'

/** Creates a person and a team with members. Each of them opens the portal with a separate session. */
export const customers: Story = async ({ world, clients }) => {
  const { organization } = await world.shop()
  const token = (await organization.token()).secret.reveal()
  await world.database.owner((owner) =>
    owner.query(
      `update organizations set customer_portal_settings = jsonb_set(customer_portal_settings, '{customer}', '{"allow_email_change": true}') where id = $1`,
      [organization.id],
    ),
  )

  const current = clients.current(token)
  const person = await current.customers.create({
    email: 'ada@people.test',
    name: 'Ada',
    external_id: 'ada',
    billing_address: { country: 'DE', city: 'Berlin' },
    tax_id: 'DE136695976',
    metadata: { plan: 'pro' },
  })
  assert.deepEqual(person.tax_id, ['DE136695976', 'eu_vat'])
  const team = await current.customers.create({ type: 'team', name: 'Works', owner: { email: 'olga@people.test' }, external_id: 'works' })
  assert.equal((await current.customers.list({ metadata: { plan: 'pro' } })).items[0]?.id, person.id)
  assert.equal((await current.customers.get(person.id)).email, 'ada@people.test')
  assert.equal((await current.customers.getExternal('works')).id, team.id)
  assert.equal((await current.customers.update(person.id, { name: 'Ada L.' })).name, 'Ada L.')
  assert.equal((await current.customers.updateExternal('ada', { locale: 'de' })).locale, 'de')
  assert.match(await current.customers.export({}), /^"ID",External ID,/)
  assert.deepEqual((await current.customers.listPaymentMethods(person.id)).items, [])
  assert.deepEqual((await current.customers.listPaymentMethodsExternal('ada')).items, [])
  assert.deepEqual((await current.customers.getState(person.id)).granted_benefits, [])
  assert.deepEqual((await current.customers.getStateExternal('works')).active_subscriptions, [])
  const uma = await current.customers.members.create(team.id, { email: 'uma@people.test', external_id: 'uma' })
  const vic = await current.customers.members.createExternal('works', { email: 'vic@people.test', external_id: 'vic', role: 'billing_manager' })
  assert.equal((await current.customers.members.list(team.id)).items.length, 3)
  assert.equal((await current.customers.members.listExternal('works', { role: 'member' })).items[0]?.id, uma.id)
  assert.equal((await current.customers.members.get(team.id, uma.id)).role, 'member')
  assert.equal((await current.customers.members.getExternal('works', 'vic')).id, vic.id)
  assert.equal((await current.customers.members.update(team.id, uma.id, { name: 'Uma' })).name, 'Uma')
  assert.equal((await current.customers.members.updateExternal('works', 'vic', { role: 'owner' })).role, 'owner')
  const session = await current.customerSessions.create({ customer_id: team.id, member_id: vic.id })
  assert.equal(session.customer.id, team.id)

  const portal = clients.current(session.token).customerPortal
  assert.equal((await portal.customers.get()).name, 'Works')
  assert.equal((await portal.customers.update({ billing_name: 'Works Ltd' })).billing_name, 'Works Ltd')
  assert.deepEqual((await portal.customers.listPaymentMethods()).items, [])
  assert.equal((await portal.customerSession.introspect()).return_url, null)
  assert.equal((await portal.customerSession.getAuthenticatedUser()).role, 'owner')
  const added = await portal.members.addMember({ email: 'new@people.test' })
  assert.equal((await portal.members.listMembers()).items.length, 4)
  assert.equal((await portal.members.updateMember(added.id, { role: 'billing_manager' })).role, 'billing_manager')
  await portal.members.removeMember(added.id)
  assert.equal((await portal.organizations.get(organization.slug)).organization.id, organization.id)
  await portal.customers.requestEmailUpdate({ email: 'works@people.test' })
  const link = /token=(\S+)/.exec((await world.mail.next('works@people.test')).text)![1]!
  await portal.customers.checkEmailUpdate({ token: link })
  // The team's address belongs to no member, so changing it opens no session.
  assert.equal((await portal.customers.verifyEmailUpdate({ token: link })).token, '')

  await current.customers.members.delete(team.id, uma.id)
  await current.customers.members.deleteExternal('works', 'vic').then(
    () => assert.fail('the owner cannot be removed'),
    (error: { name: string }) => assert.equal(error.name, 'HTTPValidationError'),
  )
  await current.customers.members.create(team.id, { email: 'wen@people.test', external_id: 'wen' })
  await current.customers.members.deleteExternal('works', 'wen')
  await current.customers.delete(person.id)
  await current.customers.deleteExternal('works')

  const strict = clients.strict(token)
  const solo = await strict.customers.create({ type: 'individual', email: 'solo@people.test', externalId: 'solo' })
  const crew = await strict.customers.create({ type: 'team', email: 'crew@people.test', externalId: 'crew' })
  const emails: (string | null | undefined)[] = []
  assert.match(String(await strict.customers.export({})), /^"ID",External ID,/)
  for await (const page of await strict.customers.list({ limit: 1, sorting: ['email'] })) emails.push(...page.result.items.map(({ email }) => email))
  assert.deepEqual(emails, ['crew@people.test', 'solo@people.test'])
  assert.equal((await strict.customers.get({ id: solo.id })).externalId, 'solo')
  assert.equal((await strict.customers.getExternal({ externalId: 'crew' })).type, 'team')
  assert.deepEqual((await strict.customers.getState({ id: solo.id })).grantedBenefits, [])
  assert.deepEqual((await strict.customers.getStateExternal({ externalId: 'crew' })).activeSubscriptions, [])
  await strict.customers.update({ id: solo.id, customerUpdate: { name: 'Solo' } })
  await strict.customers.updateExternal({ externalId: 'crew', customerUpdateExternalID: { name: 'Crew' } })
  // The older client calls the older operations for members at the top level. Newer operations are below the customer's path.
  const max = await strict.members.createMember({ customerId: crew.id, email: 'max@people.test', externalId: 'max' })
  const ned = await strict.members.createMember({ customerId: crew.id, email: 'ned@people.test', externalId: 'ned' })
  let count = 0
  for await (const page of await strict.members.listMembers({ customerId: crew.id })) count += page.result.items.length
  assert.equal(count, 3)
  assert.equal((await strict.members.getMember({ id: max.id })).email, 'max@people.test')
  assert.equal((await strict.members.updateMember({ id: max.id, memberUpdate: { role: 'owner' } })).role, 'owner')
  const named = { externalId: 'ned', externalCustomerId: 'crew' }
  assert.equal((await strict.members.getMemberByExternalId(named)).id, ned.id)
  assert.equal((await strict.members.updateMemberByExternalId({ ...named, memberUpdate: { name: 'Ned' } })).name, 'Ned')
  await strict.members.deleteMemberByExternalId(named)
  await strict.members.deleteMember({ id: (await strict.members.createMember({ customerId: crew.id, email: 'ned@people.test' })).id })
  const opened = await strict.customerSessions.create({ externalCustomerId: 'crew', externalMemberId: 'max' })
  const { members } = clients.strict(opened.token).customerPortal
  const anyone = { customerSession: opened.token }
  const { customerPortal } = strict
  assert.equal((await customerPortal.customers.get(anyone)).name, 'Crew')
  await customerPortal.customers.update(anyone, { billingName: 'Crew Ltd' })
  for await (const page of await customerPortal.customers.listPaymentMethods(anyone, {})) assert.deepEqual(page.result.items, [])
  await customerPortal.customerSession.introspect(anyone)
  assert.equal((await customerPortal.customerSession.getAuthenticatedUser(anyone)).role, 'owner')
  const guest = await members.addMember({ email: 'guest@people.test' })
  for await (const page of await members.listMembers({})) assert.equal(page.result.items.length, 3)
  await members.updateMember({ id: guest.id, customerPortalMemberUpdate: { role: 'billing_manager' } })
  await members.removeMember({ id: guest.id })
  await customerPortal.organizations.get({ slug: organization.slug })
  await customerPortal.customers.requestEmailUpdate(anyone, { email: 'crew2@people.test' })
  const second = /token=(\S+)/.exec((await world.mail.next('crew2@people.test')).text)![1]!
  await customerPortal.customers.checkEmailUpdate({ token: second })
  await customerPortal.customers.verifyEmailUpdate({ token: second })
  await strict.customers.delete({ id: solo.id })

  // Signs in with a mailed code by plain HTTP, because no official client supports it.
  const open = connect((request) => exchange(world.port, request.method, request.url, request.headers, request.body))
  const whom = { organization_id: organization.id, email: 'max@people.test' }
  await open.call(requestPortalCode, { body: whom })
  const code = codeIn((await world.mail.next(whom.email)).text)
  assert.match((await open.call(authenticatePortalCode, { body: { ...whom, code } })).token!, /^bursar_test_mst_/)
  await strict.customers.deleteExternal({ externalId: 'crew' })
}
